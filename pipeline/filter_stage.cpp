// The part of filters that does not depend on the user's types.
#include <penstock/pipeline/filter_stage.h>

#include <utility>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/sample_of_row.h>

namespace penstock::detail {

std::function<MapBody(const Schema&)> sample_predicate(std::function<bool(const Sample&, Draw&)> predicate) {
  if (!predicate) throw InvalidArgument("filter: a stage without a function");
  return [predicate = std::move(predicate)](const Schema& schema) -> MapBody {
    return [schema, predicate](Row& row, Draw& draw) {
      if (!predicate(sample_of(row, schema), draw)) row.drop();
    };
  };
}

}  // namespace penstock::detail
