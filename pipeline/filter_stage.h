// Predicates as stages: a filter runs like a map, row by row in parallel, and drops its row.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include <penstock/pipeline/map_stage.h>

namespace penstock {

namespace detail {

std::function<MapBody(const Schema&)> sample_predicate(std::function<bool(const Sample&, Draw&)> predicate);

inline MapStage filter_stage(std::string name, bool draws) {
  MapStage stage{.name = std::move(name),
                 .identity = "filter",
                 .draws = draws,
                 .drops = true,
                 .writes = {},
                 .output = [](const Schema& schema) { return schema; },
                 .bind = {}};
  return stage;
}

}  // namespace detail

/// Filter by one scalar field: `[](std::int64_t label) { return label < 10; }`, or with a trailing `Draw&`.
template <class F>
MapStage value_filter(std::string field, F predicate) {
  using In = std::remove_cvref_t<detail::ArgumentOf<F, 0>>;
  static_assert(kHasDataType<In>, "a filter by field takes u8, i32, i64 or f32");
  constexpr bool kDraws = detail::takes_draw<F>(1);
  MapStage stage = detail::filter_stage("filter(" + field + ")", kDraws);
  stage.output = [field](const Schema& schema) {
    static_cast<void>(detail::with_field(schema, field, kDataType<In>, Output{kDataType<In>, {}}, true));
    return schema;
  };
  stage.bind = [field, predicate = std::move(predicate)](const Schema& schema) -> MapBody {
    return [at = schema.index_of(field), predicate](Row& row, [[maybe_unused]] Draw& draw) {
      const In in = *reinterpret_cast<const In*>(row.cell(at).data);
      bool keeps = false;
      if constexpr (kDraws) {
        keeps = predicate(in, draw);
      } else {
        keeps = predicate(in);
      }
      if (!keeps) row.drop();
    };
  };
  return stage;
}

/// Filter by the whole sample: `[](const Sample& sample) { return ...; }`, or with a trailing `Draw&`.
template <class F>
MapStage sample_filter(F predicate) {
  constexpr bool kDraws = detail::takes_draw<F>(1);
  MapStage stage = detail::filter_stage("filter", kDraws);
  std::function<bool(const Sample&, Draw&)> body;
  if constexpr (kDraws) {
    body = std::move(predicate);
  } else {
    body = [predicate = std::move(predicate)](const Sample& sample, Draw&) { return predicate(sample); };
  }
  stage.bind = detail::sample_predicate(std::move(body));
  return stage;
}

}  // namespace penstock
