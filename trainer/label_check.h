// Labels are checked on the host, where sample and path are still known: a kernel never sees one outside its range.
#pragma once

#include <cstdint>

#include <penstock/pipeline/map_stage.h>

namespace penstock::trainer {

/// A map over `label` (i64 []) that passes labels in [0, class_count) and refuses others with
/// DataError(label_out_of_range): the loader's error then names sample, path and label.
MapStage check_label(std::int64_t class_count);

}  // namespace penstock::trainer
