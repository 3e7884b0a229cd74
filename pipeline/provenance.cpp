// A flat plan's row is made by its maps alone, bound here once more; a replaced one's stand-in is whom the loader
// names, since that is the rule.
#include <penstock/pipeline/provenance.h>

#include <array>
#include <cstdio>
#include <memory>
#include <sstream>
#include <utility>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/engine/sample_failure.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/order/order.h>
#include <penstock/pipeline/report/batch_hash.h>
#include <penstock/pipeline/report/read_sample.h>
#include <penstock/pipeline/row.h>
#include <penstock/pipeline/sample_of_row.h>

namespace penstock {
namespace {

/// Keeps every value of a row until the end.
class KeptMemory final : public RowMemory {
 public:
  std::byte* value(std::size_t, std::size_t bytes) override { return scratch(bytes); }
  std::byte* scratch(std::size_t bytes) override {
    memory_.push_back(engine::make_aligned(bytes));
    return memory_.back().get();
  }
  void hold(Tensor tensor) override { held_.push_back(std::move(tensor)); }

 private:
  std::vector<engine::AlignedMemory> memory_;
  std::vector<Tensor> held_;
};

std::string place_text(std::uint64_t batch, std::uint64_t row) {
  return "batch " + std::to_string(batch) + ", row " + std::to_string(row);
}

/// What became of a row: a sample, or the failure of a stage.
struct Made {
  std::optional<Sample> sample;
  std::vector<StageDraws> draws;
  std::optional<engine::SampleFailure> failure;
};

StageDraws drawn(const Provenance& place, const std::string& stage, std::uint32_t number, std::uint64_t count) {
  StageDraws draws{stage, number, {}};
  Draw again(place.seed, place.epoch, place.lineage, number);
  for (std::uint64_t i = 0; i < count; ++i) draws.words.push_back(again.bits());
  return draws;
}

Made make(const Plan& plan, const Provenance& place, std::uint64_t index) {
  Made made;
  std::string stage_now = "read";
  try {
    const Sample read = report::read_sample_here(*plan.source, index);
    KeptMemory memory;
    Row row(memory);
    row.reset({0, index}, read.tensors().size());
    for (std::size_t f = 0; f < read.tensors().size(); ++f) {
      const Tensor& tensor = read.tensors()[f];
      row.set_cell(f, {tensor.data(), tensor.type(), tensor.shape()});
    }
    std::uint32_t draw_count = 0;
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
      const auto* const map = std::get_if<MapStage>(&plan.stages[i]);
      if (map == nullptr) continue;
      stage_now = map->name;
      Draw draw(place.seed, place.epoch, place.lineage, map->draws ? draw_count : 0);
      map->bind(plan.schemas[i])(row, draw);
      if (map->draws) made.draws.push_back(drawn(place, map->name, draw_count++, draw.used()));
    }
    for (std::size_t f = 0; f < plan.row_schema.size(); ++f) {
      const Field& field = plan.row_schema[f];
      const Cell& cell = row.cell(f);
      if (cell.type != field.type || cell.shape != field.shape) {
        throw InvalidArgument("field \"" + field.name + "\" is " + to_string(cell.type) + " " + cell.shape.to_string() +
                              ", rows of the batch are " + to_string(field.type) + " " + field.shape.to_string());
      }
    }
    made.sample = detail::sample_of(row, plan.row_schema);
  } catch (...) {
    made.failure = engine::describe_failure(stage_now, index, plan.source.get(), std::current_exception());
  }
  return made;
}

/// One row of a batch as a sample of its own.
Sample row_of(const Batch& batch, std::size_t row) {
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  for (std::size_t f = 0; f < batch.layout().fields.size(); ++f) {
    const BatchField& field = batch.layout().fields[f];
    names.push_back(field.field.name);
    tensors.push_back(Tensor::copy_of_bytes(field.field.type, field.field.shape,
                                            {batch.field_data(f) + row * field.row_bytes, field.row_bytes}));
  }
  return Sample(std::move(names), std::move(tensors), batch.origin(row));
}

/// Runs from `start` to batch `batch`, and looks at its row.
struct Delivered {
  std::optional<Batch> batch;
  std::size_t row = 0;  // of what `batch` holds
  std::exception_ptr error;
};
Delivered deliver(const Runtime& runtime, const Pipeline& pipeline, const Provenance& place, const Position& start) {
  Loader loader(runtime, pipeline, {.epoch_count = place.epoch + 1, .seed = place.seed, .start = start});
  const std::uint64_t batch_size = loader.layout().batch_size;
  const auto missing = [&] {
    return InvalidArgument("provenance: " + place_text(place.batch, place.row) + ": epoch " +
                           std::to_string(place.epoch) + " has no such row");
  };
  Delivered delivered;
  // Where the next row, or the next failed sample, stands.
  std::uint64_t batch_now = start.slot / batch_size;
  std::uint64_t row_now = 0;
  for (;;) {
    try {
      std::optional<Batch> batch = loader.next();
      if (!batch || batch->index() > place.batch) throw missing();
      if (batch->index() != batch_now) row_now = 0;
      batch_now = batch->index();
      if (batch_now == place.batch && place.row < row_now + batch->size()) {
        delivered.row = static_cast<std::size_t>(place.row - row_now);
        delivered.batch = std::move(batch);
        return delivered;
      }
      row_now += batch->size();
    } catch (const SampleError&) {
      if (row_now == batch_size) {
        ++batch_now;
        row_now = 0;
      }
      if (batch_now == place.batch && row_now == place.row) {
        delivered.error = std::current_exception();
        return delivered;
      }
      ++row_now;
    }
  }
}

std::string words_text(const StageDraws& draws) {
  constexpr std::size_t kMost = 8;
  std::ostringstream text;
  text << draws.words.size() << (draws.words.size() == 1 ? " word" : " words");
  for (std::size_t i = 0; i < draws.words.size() && i < kMost; ++i) {
    std::array<char, 16> word{};
    std::snprintf(word.data(), word.size(), "%s%08x", i == 0 ? ": " : " ", draws.words[i]);
    text << word.data();
  }
  if (draws.words.size() > kMost) text << " ...";
  return text.str();
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

std::string text_of(const RebuiltRow& rebuilt, const Plan& plan) {
  const Provenance& place = rebuilt.provenance;
  std::ostringstream text;
  text << "epoch " << place.epoch << ", " << place_text(place.batch, place.row) << ", slot " << place.slot << "\n";
  for (std::size_t i = 0; i < place.origins.size(); ++i) {
    text << "  sample " << place.origins[i].index << " of source " << place.origins[i].source << ": "
         << place.sources[i] << "\n";
  }
  if (rebuilt.error) text << "  failed: " << message_of(rebuilt.error) << "\n";
  if (rebuilt.replacement) {
    text << "  replaced by sample " << rebuilt.replacement->index << ": "
         << plan.source->describe(rebuilt.replacement->index) << "\n";
  } else if (rebuilt.error) {
    text << "  not delivered: next() throws this in its place\n";
  }
  for (const StageDraws& draws : rebuilt.draws) {
    text << "  " << draws.stage << " drew " << words_text(draws) << "\n";
  }
  if (!rebuilt.sample) return text.str();
  for (std::size_t f = 0; f < rebuilt.sample->tensors().size(); ++f) {
    const Tensor& tensor = rebuilt.sample->tensors()[f];
    text << "  " << rebuilt.sample->names()[f] << ": " << to_string(tensor.type()) << " " << tensor.shape().to_string()
         << ", xxh3 " << hash_text(hash_bytes(tensor.data(), tensor.size_bytes())) << "\n";
  }
  return text.str();
}

RebuiltRow rebuild_flat(const Runtime& runtime, const Pipeline& pipeline, const Provenance& place) {
  const Plan& plan = pipeline.plan();
  RebuiltRow rebuilt;
  rebuilt.provenance = place;
  Made made = make(plan, place, place.origins.front().index);
  if (made.failure) {
    rebuilt.error = made.failure->error();
    if (plan.errors.action == OnError::kReplace) {
      const std::uint64_t first = place.batch * find_stage<BatchStage>(plan)->size;
      const Delivered delivered = deliver(runtime, pipeline, place, {place.epoch, first});
      if (delivered.batch) {
        rebuilt.replacement = delivered.batch->origin(delivered.row);
        made = make(plan, place, rebuilt.replacement->index);
      }
    }
  }
  rebuilt.sample = std::move(made.sample);
  rebuilt.draws = std::move(made.draws);
  return rebuilt;
}

RebuiltRow rebuild_by_running(const Runtime& runtime, const Pipeline& pipeline, Provenance place) {
  RebuiltRow rebuilt;
  Delivered delivered = deliver(runtime, pipeline, place, {place.epoch, 0});
  rebuilt.error = delivered.error;
  if (delivered.batch) {
    rebuilt.sample = row_of(*delivered.batch, delivered.row);
    place.origins = delivered.batch->origins(delivered.row);
    place.sources = {delivered.batch->describe(delivered.row)};
    for (std::size_t i = 1; i < place.origins.size(); ++i) {
      place.sources.push_back("sample " + std::to_string(place.origins[i].index));
    }
  }
  rebuilt.provenance = std::move(place);
  return rebuilt;
}

}  // namespace

Provenance provenance(const Pipeline& pipeline, std::uint64_t seed, std::uint64_t epoch, std::uint64_t batch,
                      std::uint64_t row) {
  const Plan& plan = pipeline.plan();
  if (!is_flat(plan)) {
    throw InvalidArgument("provenance: the rows of this plan depend on its samples; rebuild() runs it");
  }
  const BatchStage& stage = *find_stage<BatchStage>(plan);
  const order::Order order(*plan.source->size(), plan.stages, seed);
  const std::uint64_t rest = stage.last == LastBatch::kDrop ? order.size() % stage.size : 0;
  const std::uint64_t delivered = order.size() - rest;
  if (row >= stage.size || batch >= (delivered + stage.size - 1) / stage.size ||
      batch * stage.size + row >= delivered) {
    throw InvalidArgument("provenance: " + place_text(batch, row) + ": an epoch has " + std::to_string(delivered) +
                          " rows in batches of " + std::to_string(stage.size));
  }
  Provenance place{.seed = seed, .epoch = epoch, .batch = batch, .row = row, .origins = {}, .sources = {}};
  place.slot = batch * stage.size + row;
  order::Placed placed;
  order.fill(epoch, place.slot, {&placed, 1});
  place.lineage = placed.lineage;
  place.origins = {{0, placed.index}};
  place.sources = {plan.source->describe(placed.index)};
  return place;
}

RebuiltRow rebuild(const Runtime& runtime, const Pipeline& pipeline, std::uint64_t seed, std::uint64_t epoch,
                   std::uint64_t batch, std::uint64_t row) {
  RebuiltRow rebuilt;
  if (is_flat(pipeline.plan())) {
    rebuilt = rebuild_flat(runtime, pipeline, provenance(pipeline, seed, epoch, batch, row));
  } else {
    if (pipeline.plan().batch_depth == 0) throw InvalidArgument("provenance: the pipeline has no batch stage");
    rebuilt = rebuild_by_running(
        runtime, pipeline, {.seed = seed, .epoch = epoch, .batch = batch, .row = row, .origins = {}, .sources = {}});
  }
  rebuilt.text = text_of(rebuilt, pipeline.plan());
  return rebuilt;
}

}  // namespace penstock
