// A state says which plan it belongs to, so that it is not taken for another's. Where the last stage of order is a
// shard it also says where all ranks stand together: rank and world are then no part of the plan, and other ranks go on
// there.
#include <penstock/pipeline/loader_state.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/order/order.h>

namespace penstock {
namespace {

constexpr std::uint64_t kStateVersion = 2;

template <class... F>
struct Cases : F... {
  using F::operator()...;
};
template <class... F>
Cases(F...) -> Cases<F...>;

/// FNV-1a over parts, each with its length before it.
class Fingerprint {
 public:
  void add(std::string_view part) {
    add(part.size());
    for (const char byte : part) mix(static_cast<unsigned char>(byte));
  }
  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) mix(static_cast<unsigned char>(number >> shift));
  }
  std::string text() const {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(hash_ >> shift) & 15];
    return text;
  }

 private:
  void mix(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001B3ULL; }
  std::uint64_t hash_ = 0xCBF29CE484222325ULL;
};

/// The shard of a flat plan that no other stage of order follows; null when there is none.
const ShardStage* last_shard(const Plan& plan) {
  if (!is_flat(plan)) return nullptr;
  const ShardStage* shard = nullptr;
  for (const Stage& stage : plan.stages) {
    if (const auto* const found = std::get_if<ShardStage>(&stage)) {
      shard = found;
    } else if (std::holds_alternative<ShuffleStage>(stage) || std::holds_alternative<RepeatStage>(stage) ||
               std::holds_alternative<TakeStage>(stage) || std::holds_alternative<SkipStage>(stage)) {
      shard = nullptr;
    }
  }
  return shard;
}

/// Slots an epoch of a flat plan: of all ranks together when its last stage of order is a shard.
std::uint64_t slots_of(const Plan& plan, const ShardStage* shard) {
  std::vector<Stage> order;
  for (const Stage& stage : plan.stages) {
    if (!shard || std::get_if<ShardStage>(&stage) != shard) order.push_back(stage);
  }
  return order::Order(*plan.source->size(), order, 0).size();
}

/// Stages that change neither which samples there are nor their order, nor what a cursor counts, are left out.
void add_plan(Fingerprint& print, const Plan& plan, const ShardStage* shard, bool flat) {
  print.add(plan.inputs.size());
  for (const std::shared_ptr<const Plan>& input : plan.inputs) add_plan(print, *input, nullptr, false);
  if (plan.source) print.add(plan.source->size().value_or(0));
  for (const Stage& stage : plan.stages) {
    if (std::holds_alternative<CacheStage>(stage) || std::holds_alternative<PrefetchStage>(stage)) continue;
    print.add(stage_name(stage));
    std::visit(
        Cases{[&](const ShuffleStage& shuffle) {
                print.add(shuffle.options.seed ? 1 : 0);
                print.add(shuffle.options.seed.value_or(0));
                print.add(shuffle.options.buffer);
              },
              [&](const RepeatStage& repeat) { print.add(repeat.count); },
              [&](const TakeStage& take) { print.add(take.count); },
              [&](const SkipStage& skip) { print.add(skip.count); },
              [&](const ShardStage& own) {
                print.add(static_cast<std::uint64_t>(own.uneven));
                if (&own == shard) return;
                print.add(own.rank);
                print.add(own.world);
              },
              [&](const BatchStage& batch) { print.add(flat ? 0 : batch.size); },
              [&](const std::shared_ptr<const StreamStage>& stream) { print.add(stream->text); }, [](const auto&) {}},
        stage);
  }
}

std::string fingerprint(const Plan& plan) {
  Fingerprint print;
  add_plan(print, plan, last_shard(plan), is_flat(plan));
  return print.text();
}

/// The members of a state, checked.
class StateReader {
 public:
  explicit StateReader(const std::string& text) : json_(nlohmann::json::parse(text, nullptr, false)) {
    if (!json_.is_object()) throw InvalidArgument("state: this is no JSON object");
  }
  std::uint64_t number(const char* name) const {
    const auto at = json_.find(name);
    if (at == json_.end() || !at->is_number_unsigned()) {
      throw InvalidArgument(std::string("state: \"") + name + "\" is missing or not a whole number");
    }
    return at->get<std::uint64_t>();
  }
  std::string text(const char* name) const {
    const auto at = json_.find(name);
    if (at == json_.end() || !at->is_string()) {
      throw InvalidArgument(std::string("state: \"") + name + "\" is missing or not a text");
    }
    return at->get<std::string>();
  }
  std::shared_ptr<const Cursor> cursor() const {
    if (!json_.contains("numbers")) return nullptr;
    auto cursor = std::make_shared<Cursor>();
    for (const nlohmann::json& number : array("numbers")) {
      if (!number.is_number_unsigned()) throw InvalidArgument("state: \"numbers\" has one that is not a whole number");
      cursor->numbers.push_back(number.get<std::uint64_t>());
    }
    for (const nlohmann::json& bytes : array("texts")) {
      if (!bytes.is_string()) throw InvalidArgument("state: \"texts\" has one that is not a text");
      cursor->texts.push_back(from_hex(bytes.get<std::string>()));
    }
    return cursor;
  }
  /// Texts of users' own saving may be any bytes.
  static std::string to_hex(std::string_view bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const char byte : bytes) {
      text += kDigits[static_cast<unsigned char>(byte) >> 4];
      text += kDigits[static_cast<unsigned char>(byte) & 15];
    }
    return text;
  }

 private:
  const nlohmann::json& array(const char* name) const {
    const auto at = json_.find(name);
    if (at == json_.end() || !at->is_array()) {
      throw InvalidArgument(std::string("state: \"") + name + "\" is missing or not a list");
    }
    return *at;
  }
  static std::string from_hex(const std::string& text) {
    const auto digit = [](char c) -> int {
      if (c >= '0' && c <= '9') return c - '0';
      return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    std::string bytes;
    for (std::size_t i = 0; i < text.size(); i += 2) {
      const int high = digit(text[i]);
      const int low = i + 1 < text.size() ? digit(text[i + 1]) : -1;
      if (high < 0 || low < 0) throw InvalidArgument("state: \"texts\" has one that is not hexadecimal");
      bytes += static_cast<char>(high * 16 + low);
    }
    return bytes;
  }

  nlohmann::json json_;
};

}  // namespace

std::string state_text(const Plan& plan, const Position& position) {
  if (position.cursor && !position.cursor->unsaved_stage.empty()) {
    throw InvalidArgument("state: \"" + position.cursor->unsaved_stage +
                          "\" has a state that only its user can save; give it a save and a restore function");
  }
  nlohmann::ordered_json json;
  json["penstock_state"] = kStateVersion;
  json["plan"] = fingerprint(plan);
  json["epoch"] = position.epoch;
  json["slot"] = position.slot;
  const ShardStage* const shard = last_shard(plan);
  if (is_flat(plan)) json["size"] = slots_of(plan, shard);
  if (shard) {
    json["rank"] = shard->rank;
    json["world"] = shard->world;
    std::uint64_t all = 0;
    const std::uint64_t size = slots_of(plan, shard);
    if (__builtin_mul_overflow(position.slot, shard->world, &all)) all = size;
    json["global_slot"] = std::min(all, size);
  }
  if (position.cursor) {
    json["numbers"] = position.cursor->numbers;
    std::vector<std::string> texts;
    for (const std::string& text : position.cursor->texts) texts.push_back(StateReader::to_hex(text));
    json["texts"] = std::move(texts);
  }
  return json.dump();
}

Position read_state(const Pipeline& pipeline, const std::string& text) {
  const Plan& plan = pipeline.plan();
  const StateReader state(text);
  if (state.number("penstock_state") != kStateVersion) {
    throw InvalidArgument("state: version " + std::to_string(state.number("penstock_state")) + ", only version " +
                          std::to_string(kStateVersion) + " is read");
  }
  Position position{state.number("epoch"), state.number("slot"), state.cursor()};
  const bool flat = is_flat(plan);
  const ShardStage* const shard = last_shard(plan);
  if (flat) {
    const std::uint64_t size = slots_of(plan, shard);
    if (state.number("size") != size) {
      throw InvalidArgument("state: it belongs to a pipeline of " + std::to_string(state.number("size")) +
                            " samples an epoch, this one has " + std::to_string(size));
    }
    const std::uint64_t slot = shard ? state.number("global_slot") : position.slot;
    if (slot > size) throw InvalidArgument("state: slot " + std::to_string(slot) + " of " + std::to_string(size));
    if (shard) {
      // The slots before it that are this rank's.
      const std::uint64_t own = slot > shard->rank ? (slot - shard->rank - 1) / shard->world + 1 : 0;
      position.slot = std::min(own, order::Order(*plan.source->size(), plan.stages, 0).size());
    }
  }
  if (state.text("plan") != fingerprint(plan)) {
    throw InvalidArgument("state: it belongs to a pipeline with other stages or other parameters than this one");
  }
  if (flat && position.cursor) throw InvalidArgument("state: it has a cursor, which this pipeline has no use for");
  return position;
}

}  // namespace penstock
