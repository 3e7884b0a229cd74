// A map like any other, so that the error arrives in the sample's place.
#include <penstock/trainer/label_check.h>

#include <string>

#include <penstock/pipeline/error.h>

namespace penstock::trainer {

MapStage check_label(std::int64_t class_count) {
  MapStage stage = value_map(
      "label",
      [class_count](std::int64_t label) {
        if (label < 0 || label >= class_count) {
          throw DataError(ErrorKind::kLabelOutOfRange,
                          "label " + std::to_string(label) + " is outside [0, " + std::to_string(class_count) + ")");
        }
        return label;
      },
      "check_label/1/" + std::to_string(class_count));
  stage.name = "check_label";
  return stage;
}

}  // namespace penstock::trainer
