// JSON texts that more than one file of the trainer writes and reads.
#pragma once

#include <string>

#include <penstock/trainer/trainer.h>

namespace penstock::trainer {

/// Reads what `row_to_json` wrote. Throws InvalidArgument for other text.
EpochRow row_from_json(const std::string& text);

}  // namespace penstock::trainer
