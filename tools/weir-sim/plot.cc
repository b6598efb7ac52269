// SPDX-License-Identifier: BSD-3-Clause
#include "plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "config/durations.h"

namespace weir::sim {
namespace {

constexpr double width = 960;
constexpr double left = 72;
constexpr double right = 24;
constexpr double head = 64;
constexpr double panel = 190;  // of which the title takes a part
constexpr double title = 26;
constexpr double gap = 34;
constexpr double foot = 30;

constexpr std::string_view offered_colour = "#9db4c0";
constexpr std::string_view admitted_colour = "#1b6ca8";
constexpr std::string_view limit_colour = "#c8553d";

/// A coordinate, to a tenth of a point.
std::string at(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string label(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (static_cast<unsigned char>(c) >= ' ')
      safe += c;
  }
  return safe;
}

/// Writes the few elements a chart is made of.
class Svg {
 public:
  explicit Svg(double height) {
    text_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + at(width) + "\" height=\"" + at(height) +
            "\" viewBox=\"0 0 " + at(width) + " " + at(height) +
            "\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#333\">\n"
            "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  }

  void line(double x1, double y1, double x2, double y2, std::string_view colour, std::string_view more = "") {
    text_ += "<line x1=\"" + at(x1) + "\" y1=\"" + at(y1) + "\" x2=\"" + at(x2) + "\" y2=\"" + at(y2) +
             "\" stroke=\"" + std::string(colour) + "\"" + std::string(more) + "/>\n";
  }

  void words(double x, double y, std::string_view anchor, std::string_view what, std::string_view more = "") {
    text_ += "<text x=\"" + at(x) + "\" y=\"" + at(y) + "\" text-anchor=\"" + std::string(anchor) + "\"" +
             std::string(more) + ">" + escaped(what) + "</text>\n";
  }

  void path(const std::string& points, std::string_view style) {
    text_ += "<path d=\"" + points + "\" " + std::string(style) + "/>\n";
  }

  std::string end() { return std::move(text_) + "</svg>\n"; }

 private:
  std::string text_;
};

/// A round step that divides `range` into about `parts`.
double round_step(double range, double parts) {
  const double rough = range / parts;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

struct Frame {
  double top;      ///< of the drawing area
  double bottom;   ///< likewise
  double seconds;  ///< along the x axis
  double most;     ///< along the y axis, per second

  double x(double second) const { return left + (width - left - right) * second / seconds; }
  double y(double rate) const { return bottom - (bottom - top) * rate / most; }
};

/// A bucket's value stands over the whole bucket, so the line is one of stairs.
std::string stairs(const Frame& frame, const std::vector<std::uint64_t>& values, double bucket) {
  std::string points;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double begin = static_cast<double>(i) * bucket;
    const double end = std::min(begin + bucket, frame.seconds);
    // The last bucket may be cut short; its rate is not.
    const double y = frame.y(static_cast<double>(values[i]) / std::max(end - begin, 1e-9));
    points += (i == 0 ? "M" : "L") + at(frame.x(begin)) + " " + at(y) + "L" + at(frame.x(end)) + " " + at(y);
  }
  return points;
}

std::string filled(const Frame& frame, const std::vector<std::uint64_t>& values, double bucket) {
  return stairs(frame, values, bucket) + "L" + at(frame.x(frame.seconds)) + " " + at(frame.bottom) + "L" +
         at(frame.x(0)) + " " + at(frame.bottom) + "Z";
}

void axes(Svg& svg, const Frame& frame, bool with_times) {
  const double step = round_step(frame.most, 4);
  for (double value = 0; value <= frame.most * 1.0001; value += step) {
    const double y = frame.y(value);
    svg.line(left, y, width - right, y, value == 0 ? "#888" : "#e6e6e6");
    svg.words(left - 8, y + 4, "end", label(value));
  }
  const double time_step = round_step(frame.seconds, 10);
  for (double second = 0; second <= frame.seconds * 1.0001; second += time_step) {
    svg.line(frame.x(second), frame.bottom, frame.x(second), frame.bottom + 4, "#888");
    if (with_times) svg.words(frame.x(second), frame.bottom + 18, "middle", label(second) + " s");
  }
}

void legend(Svg& svg) {
  double x = width - right - 350;
  const double y = 44;
  const auto entry = [&](std::string_view colour, std::string_view name, std::string_view more, double step) {
    svg.line(x, y - 4, x + 24, y - 4, colour, more);
    svg.words(x + 30, y, "start", name);
    x += step;
  };
  entry(offered_colour, "offered", " stroke-width=\"6\"", 110);
  entry(admitted_colour, "admitted", " stroke-width=\"2.5\"", 115);
  entry(limit_colour, "limit / interval", " stroke-width=\"1.5\" stroke-dasharray=\"6 4\"", 0);
}

std::string brief(const Summary& summary) {
  std::array<char, 200> text{};
  const auto part = [&](double value) { return std::isnan(value) ? 0.0 : value; };
  std::snprintf(text.data(), text.size(),
                "error %+.1f %%, worst interval +%.1f %%, worst window +%.1f %%, used %.1f %%",
                part(summary.admission_error_pct), summary.overshoot_max_pct,
                summary.overshoot_sliding_max_pct, part(summary.utilization_pct));
  return text.data();
}

}  // namespace

std::string plot(const Scenario& scenario, const std::vector<Report>& reports) {
  const double height = head + static_cast<double>(reports.size()) * (panel + gap) + foot;
  Svg svg(height);
  const Rule& rule = reports.front().run.rules[scenario.measured];
  svg.words(left, 24, "start", scenario.title, " font-size=\"17\" font-weight=\"bold\"");
  svg.words(left, 44, "start",
            "requests per second; rule " + rule.name + ": " + std::to_string(rule.limit) + " per " +
                format_duration(rule.interval) +
                (scenario.keys_of(scenario.measured) > 1 ? ", first key" : "") + "; " +
                std::to_string(scenario.nodes) + (scenario.nodes == 1 ? " node" : " nodes"),
            " fill=\"#666\"");
  legend(svg);

  // One scale for all panels, or they could not be compared.
  const double seconds = std::chrono::duration<double>(scenario.duration).count();
  const double limit = static_cast<double>(rule.limit) / std::chrono::duration<double>(rule.interval).count();
  const double bucket =
      std::chrono::duration<double>(reports.front().run.meters[scenario.measured].curve().bucket).count();
  double most = limit;
  for (const Report& report : reports)
    for (const std::uint64_t value : report.run.meters[scenario.measured].curve().offered)
      most = std::max(most, static_cast<double>(value) / bucket);
  most *= 1.08;

  double top = head;
  for (const Report& report : reports) {
    const Frame frame{top + title, top + panel, seconds, most};
    const Curve& curve = report.run.meters[scenario.measured].curve();
    svg.words(left, top + 14, "start", algorithm_of(report.run), " font-size=\"14\" font-weight=\"bold\"");
    svg.words(width - right, top + 14, "end", brief(report.run.summaries[scenario.measured]),
              " fill=\"#666\"");
    axes(svg, frame, true);
    svg.path(filled(frame, curve.offered, bucket),
             "fill=\"" + std::string(offered_colour) + "\" fill-opacity=\"0.55\" stroke=\"none\"");
    svg.path(stairs(frame, curve.admitted, bucket), "fill=\"none\" stroke=\"" + std::string(admitted_colour) +
                                                        "\" stroke-width=\"1.6\" stroke-linejoin=\"round\"");
    svg.line(left, frame.y(limit), width - right, frame.y(limit), limit_colour,
             " stroke-width=\"1.5\" stroke-dasharray=\"6 4\"");
    top += panel + gap;
  }
  return svg.end();
}

}  // namespace weir::sim
