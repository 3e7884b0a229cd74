// Field names are a promise to scripts; numbers read back as they were written, bit for bit.
#include <penstock/trainer/train_json.h>

#include <nlohmann/json.hpp>

#include <penstock/pipeline/error.h>

namespace penstock::trainer {

namespace {

using Json = nlohmann::ordered_json;

Json cap_to_json(std::uint64_t cap_bytes) { return cap_bytes == gpu::kNoCap ? Json(nullptr) : Json(cap_bytes); }

Json suggestion_to_json(const gpu::Suggestion& suggestion) {
  Json item{{"knob", suggestion.knob}, {"value", suggestion.value}};
  for (const gpu::Suggestion& other : suggestion.with) item["with"].push_back(suggestion_to_json(other));
  return item;
}

}  // namespace

std::string plan_to_json(const gpu::MemoryPlan& plan) {
  Json accounts = Json::array();
  for (const gpu::PlannedAccount& account : plan.accounts) {
    accounts.push_back({{"path", account.path},
                        {"planned_peak_bytes", account.planned_peak_bytes},
                        {"cap_bytes", cap_to_json(account.cap_bytes)}});
  }
  Json states = Json::array();
  for (const gpu::PlannedState& state : plan.states) {
    states.push_back({{"name", state.name}, {"peak_bytes", state.peak_bytes}, {"pinned_bytes", state.pinned_bytes}});
  }
  Json text{{"fits", plan.fits}, {"accounts", accounts}, {"states", states}};
  if (!plan.fits) {
    Json suggestions = Json::array();
    for (const gpu::Suggestion& suggestion : plan.suggestions) suggestions.push_back(suggestion_to_json(suggestion));
    text["refusal"] = plan.refusal;
    text["suggestions"] = suggestions;
  }
  return text.dump();
}

std::string row_to_json(const EpochRow& row) {
  Json accounts = Json::object();
  for (const gpu::AccountFigures& account : row.accounts) {
    accounts[account.path] = {{"peak_bytes", account.peak_bytes}, {"cap_bytes", cap_to_json(account.cap_bytes)}};
  }
  return Json{{"epoch", row.epoch},
              {"train_loss", row.train_loss},
              {"train_top1", row.train_top1},
              {"val_loss", row.val_loss},
              {"val_top1", row.val_top1},
              {"val_top5", row.val_top5},
              {"images_per_s", row.images_per_s},
              {"data_wait_share", row.data_wait_share},
              {"accounts", accounts}}
      .dump();
}

EpochRow row_from_json(const std::string& text) {
  EpochRow row;
  try {
    const Json data = Json::parse(text);
    row.epoch = data.at("epoch").get<std::uint64_t>();
    row.train_loss = data.at("train_loss").get<double>();
    row.train_top1 = data.at("train_top1").get<double>();
    row.val_loss = data.at("val_loss").get<double>();
    row.val_top1 = data.at("val_top1").get<double>();
    row.val_top5 = data.at("val_top5").get<double>();
    row.images_per_s = data.at("images_per_s").get<double>();
    row.data_wait_share = data.at("data_wait_share").get<double>();
    for (const auto& [path, figures] : data.at("accounts").items()) {
      const Json& cap = figures.at("cap_bytes");
      row.accounts.push_back({path, 0, figures.at("peak_bytes").get<std::uint64_t>(),
                              cap.is_null() ? gpu::kNoCap : cap.get<std::uint64_t>()});
    }
  } catch (const Json::exception& error) {
    throw InvalidArgument(std::string("not a row of metrics: ") + error.what());
  }
  return row;
}

}  // namespace penstock::trainer
