// Faults as lines of JSON. Paths and messages may hold bytes that are no UTF-8: those are replaced, never refused.
#include <penstock/pipeline/error_policy.h>

#include <ostream>

#include <nlohmann/json.hpp>

namespace penstock {

void write_faults(std::ostream& out, std::span<const SampleFault> faults) {
  using Json = nlohmann::ordered_json;
  for (const SampleFault& fault : faults) {
    Json json;
    json["epoch"] = fault.epoch;
    json["batch"] = fault.batch;
    json["kind"] = to_string(fault.kind);
    json["stage"] = fault.stage;
    json["index"] = fault.index;
    json["source"] = fault.source;
    json["message"] = fault.message;
    json["replacement"] = fault.replacement ? Json(*fault.replacement) : Json(nullptr);
    out << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  }
}

}  // namespace penstock
