// A map as the plan keeps it: a name, what it does to the schema, and a body bound to that schema. `map(...)` of
// pipeline.h makes one from a function; the image maps return one.
#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/row.h>
#include <penstock/pipeline/sample.h>

namespace penstock {

/// Runs the map on one row; may throw anything. Called from many threads at once.
using MapBody = std::function<void(Row&, Draw&)>;

/// Values of one field in consecutive rows of a batch, and where its new values go, one after the other.
struct ColumnRun {
  const std::byte* const* in;  ///< the value of row 0, 1, ...
  std::byte* out;              ///< of row 0
  std::size_t row;             ///< the next; when the function throws, the one for which it did
  std::size_t end;
};

/// The same map as a MapBody, called for rows `[row, end)` of a run: for a map that reads and writes one field of known
/// type and shape and does not draw.
struct ColumnMap {
  std::size_t field = 0;
  std::size_t out_bytes = 0;  ///< of one value
  std::function<void(ColumnRun&)> body;
};

/// One map of a plan. Immutable once in a plan.
struct MapStage {
  std::string name;  ///< for messages and reports: `decode_image`
  /// Everything the value depends on: name, version, parameters. Empty for a nameless function, which gets an identity
  /// that is good within this process only.
  std::string identity;
  bool draws = false;               ///< takes random numbers: counted for `Draw`, refused before a cache
  bool drops = false;               ///< may call `Row::drop`: a filter
  std::vector<std::string> writes;  ///< names of the fields it writes ({"*"}: all); the others pass unchanged
  /// Schema after the map. Throws InvalidArgument (with the reason only; the plan adds the stage's name).
  std::function<Schema(const Schema&)> output;
  /// Resolves names to positions, once, and returns the body.
  std::function<MapBody(const Schema& input)> bind;
  /// The same for whole columns; empty for a map that is run row by row only.
  std::function<ColumnMap(const Schema& input)> bind_column = {};
};

/// Names a user's function for cache keys: change `version` whenever its results change.
struct Identity {
  std::string name;
  int version = 1;
  std::string parameters;
};

/// Type and shape of the field that an in-place map writes.
struct Output {
  DataType type;
  Shape shape;
};

/// Fields of the samples that a whole-sample map returns, when they are not those it got.
using Outputs = std::vector<Field>;

namespace detail {

// Arguments of a const callable: lambdas that are not mutable, function objects, function pointers.
template <class F>
struct CallableTraits : CallableTraits<decltype(&F::operator())> {};
template <class C, class R, class... A>
struct CallableTraits<R (C::*)(A...) const> {
  using Result = R;
  template <std::size_t I>
  using Argument = std::tuple_element_t<I, std::tuple<A...>>;
  static constexpr std::size_t kCount = sizeof...(A);
};
template <class C, class R, class... A>
struct CallableTraits<R (C::*)(A...) const noexcept> : CallableTraits<R (C::*)(A...) const> {};
template <class R, class... A>
struct CallableTraits<R (*)(A...)> {
  using Result = R;
  template <std::size_t I>
  using Argument = std::tuple_element_t<I, std::tuple<A...>>;
  static constexpr std::size_t kCount = sizeof...(A);
};

template <class F, std::size_t I>
using ArgumentOf = typename CallableTraits<F>::template Argument<I>;

template <class F>
constexpr bool takes_draw(std::size_t plain) {
  return CallableTraits<F>::kCount == plain + 1;
}

// `body(row)` for each row of the run; `run.row` tells where it ended. Counted in a register.
template <class Body>
void for_rows(ColumnRun& run, const Body& body) {
  std::size_t row = run.row;
  const std::size_t end = run.end;
  try {
    for (; row < end; ++row) body(row);
  } catch (...) {
    run.row = row;
    throw;
  }
  run.row = end;
}

template <class T>
struct ViewElement;
template <class T>
struct ViewElement<View<T>> {
  using Type = T;
};

std::string identity_text(const Identity& identity);
Schema with_field(const Schema& schema, const std::string& field, DataType wanted, const Output& output, bool scalar);
MapBody sample_body(const Schema& input, const Schema& output, std::function<Sample(Sample, Draw&)> function);

}  // namespace detail

/// Map over one scalar field by value: `[](std::int64_t x) { return x + 1; }`, or with a trailing `Draw&`.
template <class F>
MapStage value_map(std::string field, F function, std::string identity = {}) {
  using In = std::remove_cvref_t<detail::ArgumentOf<F, 0>>;
  using Out = std::remove_cvref_t<typename detail::CallableTraits<F>::Result>;
  static_assert(kHasDataType<In> && kHasDataType<Out>, "a value map takes and returns u8, i32, i64 or f32");
  constexpr bool kDraws = detail::takes_draw<F>(1);
  MapStage stage{.name = "map(" + field + ")",
                 .identity = std::move(identity),
                 .draws = kDraws,
                 .writes = {field},
                 .output = {},
                 .bind = {}};
  stage.output = [field](const Schema& schema) {
    return detail::with_field(schema, field, kDataType<In>, Output{kDataType<Out>, {}}, true);
  };
  stage.bind = [field, function](const Schema& schema) -> MapBody {
    return [at = schema.index_of(field), function](Row& row, [[maybe_unused]] Draw& draw) {
      const In in = *reinterpret_cast<const In*>(row.cell(at).data);
      Out out;
      if constexpr (kDraws) {
        out = function(in, draw);
      } else {
        out = function(in);
      }
      *reinterpret_cast<Out*>(row.write(at, kDataType<Out>, Shape{})) = out;
    };
  };
  if constexpr (!kDraws) {
    stage.bind_column = [field, function](const Schema& schema) {
      return ColumnMap{schema.index_of(field), sizeof(Out), [function](ColumnRun& run) {
                         Out* const out = reinterpret_cast<Out*>(run.out);
                         detail::for_rows(run, [&](std::size_t row) {
                           out[row] = function(*reinterpret_cast<const In*>(run.in[row]));
                         });
                       }};
    };
  }
  return stage;
}

/// Map over one field in place: `[](View<const std::uint8_t> in, View<float> out)`, or with a trailing `Draw&`.
/// `output` is the type and shape written; all of its dimensions must be known.
template <class F>
MapStage view_map(std::string field, Output output, F function, std::string identity = {}) {
  using In = typename detail::ViewElement<std::remove_cvref_t<detail::ArgumentOf<F, 0>>>::Type;
  using Out = typename detail::ViewElement<std::remove_cvref_t<detail::ArgumentOf<F, 1>>>::Type;
  static_assert(std::is_const_v<In> && !std::is_const_v<Out>, "the first view is const, the second is not");
  constexpr bool kDraws = detail::takes_draw<F>(2);
  if (output.type != kDataType<Out>) {
    throw InvalidArgument("map(" + field + "): the function writes " + to_string(kDataType<Out>) +
                          ", the output says " + to_string(output.type));
  }
  MapStage stage{.name = "map(" + field + ")",
                 .identity = std::move(identity),
                 .draws = kDraws,
                 .writes = {field},
                 .output = {},
                 .bind = {}};
  stage.output = [field, output](const Schema& schema) {
    return detail::with_field(schema, field, kDataType<std::remove_const_t<In>>, output, false);
  };
  stage.bind = [field, output, function](const Schema& schema) -> MapBody {
    return [at = schema.index_of(field), output, function](Row& row, [[maybe_unused]] Draw& draw) {
      const Cell in = row.cell(at);
      const View<In> from(reinterpret_cast<In*>(in.data), in.shape);
      const View<Out> to(reinterpret_cast<Out*>(row.write(at, output.type, output.shape)), output.shape);
      if constexpr (kDraws) {
        function(from, to, draw);
      } else {
        function(from, to);
      }
    };
  };
  if constexpr (!kDraws) {
    stage.bind_column = [field, output, function](const Schema& schema) {
      const std::size_t at = schema.index_of(field);
      const auto count = static_cast<std::size_t>(output.shape.element_count());
      return ColumnMap{at, count * sizeof(Out), [shape = schema[at].shape, output, count, function](ColumnRun& run) {
                         Out* const out = reinterpret_cast<Out*>(run.out);
                         detail::for_rows(run, [&](std::size_t row) {
                           function(View<In>(reinterpret_cast<In*>(run.in[row]), shape),
                                    View<Out>(out + row * count, output.shape));
                         });
                       }};
    };
  }
  return stage;
}

/// Map over the whole sample: `[](Sample sample) { ...; return sample; }`, or with a trailing `Draw&`. The samples it
/// returns have the fields it got, or those of `outputs`; that is checked for each (InvalidArgument in a SampleError).
template <class F>
MapStage sample_map(F function, Outputs outputs = {}, std::string identity = {}) {
  constexpr bool kDraws = detail::takes_draw<F>(1);
  std::function<Sample(Sample, Draw&)> body;
  if constexpr (kDraws) {
    body = std::move(function);
  } else {
    body = [function = std::move(function)](Sample sample, Draw&) { return function(std::move(sample)); };
  }
  MapStage stage{
      .name = "map", .identity = std::move(identity), .draws = kDraws, .writes = {"*"}, .output = {}, .bind = {}};
  const auto output_of = [outputs = std::move(outputs)](const Schema& schema) {
    return outputs.empty() ? schema : Schema(outputs);
  };
  stage.output = output_of;
  stage.bind = [output_of, body = std::move(body)](const Schema& schema) {
    return detail::sample_body(schema, output_of(schema), body);
  };
  return stage;
}

}  // namespace penstock
