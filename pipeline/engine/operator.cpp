// What operators share: reading a cursor, the account of kept bytes, charges for what is made, and failures.
#include <penstock/pipeline/engine/operator.h>

#include <algorithm>
#include <utility>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/engine/runtime_state.h>
#include <penstock/pipeline/error.h>

namespace penstock::engine {

std::uint64_t CursorReader::number() {
  if (number_ == cursor_.numbers.size())
    throw InvalidArgument("state: it belongs to another plan: numbers are missing");
  return cursor_.numbers[number_++];
}

std::string CursorReader::text() {
  if (text_ == cursor_.texts.size()) throw InvalidArgument("state: it belongs to another plan: texts are missing");
  return cursor_.texts[text_++];
}

void KeptBytes::keep(Element& element, const std::string& stage) {
  const std::uint64_t bytes = element.is_value() ? element.sample.size_bytes() : 0;
  if (bytes == 0) return;
  if (used_ > limit_ || bytes > limit_ - used_) {
    throw Error(stage + ": the stages of the pipeline would keep " + std::to_string(used_ + bytes) +
                " bytes of samples, the most allowed is " + std::to_string(limit_) + " (LoaderOptions::kept_bytes)");
  }
  used_ += bytes;
  element.charge = {};  // before the new one: another stage may wait for these bytes
  element.charge = share_->try_guaranteed(bytes);
}

void KeptBytes::give_on(Element& element, Charge charge) {
  if (element.is_value()) used_ -= std::min<std::uint64_t>(used_, element.sample.size_bytes());
  element.charge = std::move(charge);
}

Producing::Producing(StreamContext& context, const std::string& stage)
    : context_(context),
      share_(BudgetShare::reserve(context.runtime.budget(), context.max_sample_bytes,
                                  "the largest sample in " + stage + ", " + std::to_string(context.max_sample_bytes))) {
}

Charge Producing::charge(std::uint64_t bytes) {
  if (bytes > context_.max_sample_bytes) {
    throw DataError(ErrorKind::kTooLarge, "the sample takes " + std::to_string(bytes) + " bytes, the most allowed is " +
                                              std::to_string(context_.max_sample_bytes) +
                                              " (LoaderOptions::max_sample_bytes)");
  }
  const auto ask = [&] {
    Charge charge = share_->try_guaranteed(bytes);
    return charge ? std::move(charge) : share_->try_shared(bytes);
  };
  if (Charge charge = ask()) return charge;
  context_.wake_when_room();
  return ask();  // bytes may have come back before the wish was known
}

Charge Producing::charge_ahead(std::uint64_t bytes) { return share_->try_shared(bytes); }

Element failed(Element of, const std::string& stage, std::exception_ptr error) {
  of.kind = Element::Kind::kError;
  of.sample = {};
  of.row_origins.clear();
  of.charge = {};
  of.failure = std::make_shared<const Failure>(
      Failure{stage, of.origins.empty() ? Origin{} : of.origins.front(), std::move(error)});
  return of;
}

std::uint64_t joined_lineage(std::uint64_t kind, const std::vector<std::uint64_t>& lineages) noexcept {
  std::uint64_t joined = mix_lineage(kind, lineages.size());
  for (const std::uint64_t lineage : lineages) joined = mix_lineage(joined, lineage);
  return joined;
}

}  // namespace penstock::engine
