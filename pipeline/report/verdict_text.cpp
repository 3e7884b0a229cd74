// The sentence names the bound, the share of the measured limit, and the best step of each kind.
#include <penstock/pipeline/report/verdict_text.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <set>

namespace penstock {

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit > 0 && bytes < 9.95 ? "%.1f %s" : "%.0f %s", bytes, kUnits[unit]);
  return text.data();
}

}  // namespace penstock

namespace penstock::report {
namespace {

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 10 ? "%.2f" : "%.0f", value);
  return text.data();
}

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f %%", share * 100);
  return text.data();
}

std::string gain(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "+%.0f %%", share * 100);
  return text.data();
}

}  // namespace

std::string step_text(const VerdictStep& step) {
  std::string what;
  switch (step.kind) {
    case VerdictStep::Kind::kThread:
      what = "one more thread";
      break;
    case VerdictStep::Kind::kCore:
      what = "one more core";
      break;
    case VerdictStep::Kind::kReads:
      what = std::to_string(step.to) + " reads in flight";
      break;
    case VerdictStep::Kind::kPrefetch:
      what = std::to_string(step.to) + " batches ahead";
      break;
    case VerdictStep::Kind::kCache:
      return "caching after " + step.stage + ": " + gain(step.gain) + ", needs " +
             bytes_text(static_cast<double>(step.bytes));
    case VerdictStep::Kind::kConsumer:
      what = "a consumer that takes no time";
      break;
  }
  return what + ": " + gain(step.gain);
}

std::string verdict_text(const Verdict& verdict, const MachineLimits& limits, std::size_t threads) {
  const std::string with = std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  std::string text;
  switch (verdict.bound) {
    case Bound::kNothing:
      return "nothing to judge: no batch was delivered";
    case Bound::kThreads: {
      double share = 0;
      for (const StageShare& stage : verdict.stages) {
        if (stage.name == verdict.stage) share = std::max(share, stage.share);
      }
      text = verdict.stage + "-bound: ";
      if (share < 0.995) text += percent(share) + " of the threads' time, ";
      break;
    }
    case Bound::kReading:
      text = "bound by reading: the source answers no faster with the reads there are, ";
      break;
    case Bound::kConsumer: {
      text = "consumer-bound: ";
      const double most = std::min(verdict.threads_samples_per_s > 0 ? verdict.threads_samples_per_s : HUGE_VAL,
                                   verdict.reading_samples_per_s > 0 ? verdict.reading_samples_per_s : HUGE_VAL);
      if (std::isfinite(most)) text += "the loader could give " + number(most) + " samples/s, ";
      break;
    }
  }
  text += number(verdict.samples_per_s) + " samples/s";
  if (verdict.share_of_limit > 0) {
    text += ", " + percent(verdict.share_of_limit) + " of this machine's " + limits.limit + " with " + with;
  } else {
    text += " with " + with;
  }
  std::set<VerdictStep::Kind> named;
  for (const VerdictStep& step : verdict.steps) {
    if (named.insert(step.kind).second) text += "; " + step.text;
  }
  return text;
}

}  // namespace penstock::report
