// Bars start at a common line; the figures stand behind them, so that a short bar can be read too.
#include <penstock/trainer/command/svg.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <penstock/trainer/command/printed.h>

namespace penstock::trainer::command {
namespace {

constexpr int kWidth = 960;
constexpr int kLeft = 230;   // of the bars
constexpr int kRight = 190;  // room for figures
constexpr int kTop = 96;
constexpr int kRowHeight = 34;
constexpr int kBarHeight = 20;
constexpr const char* kWork = "#2f6db5";
constexpr const char* kWait = "#e0a030";

/// Text as XML wants it; what no XML may hold becomes a question mark.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += byte < 0x20 || byte > 0x7e ? '?' : c;
    }
  }
  return out;
}

struct Bar {
  std::string name;
  double work = 0;  // microseconds a sample
  double wait = 0;
};

std::vector<Bar> bars_of(const BenchResult& result) {
  std::vector<Bar> bars;
  const double samples = std::max<double>(1, static_cast<double>(result.report.samples));
  for (const StageReport& stage : result.report.stages) {
    bars.push_back({stage.name, 1e6 * stage.seconds / samples, 1e6 * stage.wait_seconds / samples});
  }
  const double wait = 1e6 * result.report.wait_seconds / samples;
  bars.push_back({"consumer", std::max(0.0, 1e6 * result.seconds / samples - wait), wait});
  return bars;
}

/// A round number of microseconds: about a fifth of `most`.
double tick(double most) {
  const double rough = std::max(most, 1e-9) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= rough) return step * power;
  }
  return 10 * power;
}

std::string text(int x, double y, const char* anchor, const std::string& what, int size = 13) {
  return printed("<text x=\"%d\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">%s</text>\n", x, y, anchor, size,
                 escaped(what).c_str());
}

/// Three digits, or all that stand before the point.
std::string figure(double value) { return printed(value < 100 ? "%.3g" : "%.0f", value); }

std::string rectangle(double x, double y, double width, double height, const char* colour) {
  return printed("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, width, height,
                 colour);
}

/// The verdict in lines that fit.
std::vector<std::string> lines_of(const std::string& verdict) {
  constexpr std::size_t kMost = 120;
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (begin < verdict.size()) {
    std::size_t end = verdict.size();
    if (end - begin > kMost) {
      end = verdict.rfind(' ', begin + kMost);
      if (end == verdict.npos || end <= begin) end = begin + kMost;
    }
    lines.push_back(verdict.substr(begin, end - begin));
    begin = end < verdict.size() && verdict[end] == ' ' ? end + 1 : end;
  }
  return lines;
}

}  // namespace

std::string bench_svg(const BenchResult& result) {
  const std::vector<Bar> bars = bars_of(result);
  const std::vector<std::string> verdict = lines_of(result.verdict.text);
  double most = 0;
  for (const Bar& bar : bars) most = std::max(most, bar.work + bar.wait);
  const double step = tick(most);
  const double end = std::max(step, std::ceil(most / step) * step);
  const double scale = (kWidth - kLeft - kRight) / end;
  const int bottom = kTop + kRowHeight * static_cast<int>(bars.size());
  const int height = bottom + 56 + 18 * static_cast<int>(verdict.size());

  std::string svg = printed(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
      "height=\"%d\" "
      "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" fill=\"#222222\">\n<title>penstock bench</title>\n",
      kWidth, height, kWidth, height);
  svg += rectangle(0, 0, kWidth, height, "#ffffff");
  svg += text(16, 28, "start", "penstock bench " + result.source, 17);
  svg += text(16, 50, "start",
              std::to_string(result.report.samples) + " samples, batch " + std::to_string(result.batch) + ", " +
                  std::to_string(result.threads) + " threads: " +
                  printed("%.0f samples/s, %.0f per CPU second", result.samples_per_s(), result.samples_per_cpu_s()));
  svg += rectangle(kLeft, 66, 12, 12, kWork) + text(kLeft + 18, 77, "start", "thread time (of the consumer: its own)");
  svg += rectangle(kLeft + 300, 66, 12, 12, kWait) + text(kLeft + 318, 77, "start", "waits");

  for (int i = 0; i * step <= end * 1.0001; ++i) {
    const double x = kLeft + i * step * scale;
    svg += printed("<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#d8d8d8\"/>\n", x, kTop - 8, x, bottom);
    svg += text(static_cast<int>(x), bottom + 16, "middle", printed("%g", i * step), 12);
  }
  svg += text(kLeft + (kWidth - kLeft - kRight) / 2, bottom + 34, "middle", "microseconds a sample", 12);

  for (std::size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const double y = kTop + kRowHeight * static_cast<double>(i);
    std::string name = bar.name;
    if (name.size() > 28) name = name.substr(0, 25) + "...";
    svg += text(kLeft - 10, y + 15, "end", name);
    svg += rectangle(kLeft, y, bar.work * scale, kBarHeight, kWork);
    svg += rectangle(kLeft + bar.work * scale, y, bar.wait * scale, kBarHeight, kWait);
    std::string figures = figure(bar.work);
    if (bar.wait > 0) figures += " + " + figure(bar.wait) + " wait";
    svg += text(static_cast<int>(kLeft + (bar.work + bar.wait) * scale) + 8, y + 15, "start", figures, 12);
  }
  for (std::size_t i = 0; i < verdict.size(); ++i) {
    svg += text(16, bottom + 56 + 18 * static_cast<double>(i), "start", verdict[i]);
  }
  return svg + "</svg>\n";
}

}  // namespace penstock::trainer::command
