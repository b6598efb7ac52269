// SPDX-License-Identifier: BSD-3-Clause
#include "scenario_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "config/checks.h"
#include "config/combinations.h"
#include "config/durations.h"
#include "config/rule_table.h"
#include "config/toml_table.h"
#include "config/words.h"
#include "gates.h"
#include "metrics.h"
#include "recording.h"

namespace weir::sim {

// TableReader::word() finds these by the name of their enumerators' types.
std::string_view to_string(Demand::Shape shape) noexcept {
  constexpr std::array<std::string_view, 6> words{"constant", "poisson", "step",
                                                  "ramp",     "on-off",  "recorded"};
  return words[static_cast<std::size_t>(shape)];
}
std::string_view to_string(Demand::Arrivals arrivals) noexcept {
  return arrivals == Demand::Arrivals::regular ? "regular" : "poisson";
}
std::string_view to_string(Spread::Kind kind) noexcept {
  constexpr std::array<std::string_view, 4> words{"even", "zipf", "one", "moving"};
  return words[static_cast<std::size_t>(kind)];
}
std::string_view to_string(RoundTrip::Kind kind) noexcept {
  constexpr std::array<std::string_view, 3> words{"constant", "uniform", "lognormal"};
  return words[static_cast<std::size_t>(kind)];
}
std::string_view to_string(ScenarioEvent::Kind kind) noexcept {
  constexpr std::array<std::string_view, 6> words{"crash", "restart", "join", "leave", "pause", "cut"};
  return words[static_cast<std::size_t>(kind)];
}

namespace {

constexpr std::array algorithms{Algorithm::cooldown,     Algorithm::fixed_window, Algorithm::sliding_window,
                                Algorithm::token_bucket, Algorithm::leaky_bucket, Algorithm::sliding_log,
                                Algorithm::shed,         Algorithm::strict};
constexpr std::uint32_t most_nodes = 65536;
constexpr std::size_t most_keys = 4'000'000;
/// Times are added to one another, and to those of wall clocks: no such sum may leave the range of Duration.
constexpr Duration longest_time = 10 * interval_range.most;
constexpr double unbounded = std::numeric_limits<double>::infinity();

struct NumberRange {
  double least;
  double most;
};

/// TableReader, with the kinds of values that only scenarios have.
class Reader : public TableReader {
 public:
  Reader(const toml::table& table, std::string path, std::string title, Findings& findings)
      : TableReader(table, std::move(path), std::move(title), findings), findings_(&findings) {}

  void number(std::string_view key, NumberRange range, double& out) {
    if (const toml::node* node = take(key); node != nullptr) number(*node, path_of(key), key, range, out);
  }

  bool number(const toml::node& node, const std::string& path, std::string_view what, NumberRange range,
              double& out) {
    double value = 0;
    if (const auto* whole = node.as_integer()) {
      value = static_cast<double>(whole->get());
    } else if (const auto* fraction = node.as_floating_point()) {
      value = fraction->get();
    } else {
      wrong_type(path, what, "a number", type_name(node));
      return false;
    }
    if (!(value >= range.least && value <= range.most)) {
      findings_->add(
          path, std::string(what) + " must be " +
                    (range.most == unbounded ? "a number of at least " + plain(range.least)
                                             : "from " + plain(range.least) + " to " + plain(range.most)));
      return false;
    }
    out = value;
    return true;
  }

  /// In place of TableReader's, which knows no longest_time.
  void duration(std::string_view key, Duration& out) {
    if (const toml::node* node = take(key); node != nullptr) plain_duration(*node, path_of(key), key, out);
  }

  /// A duration that may have a sign.
  void signed_duration(std::string_view key, Duration& out) {
    if (const toml::node* node = take(key); node != nullptr) signed_duration(*node, path_of(key), key, out);
  }

  bool signed_duration(const toml::node& node, const std::string& path, std::string_view what,
                       Duration& out) {
    return read_duration(node, path, what, true, out);
  }

  bool plain_duration(const toml::node& node, const std::string& path, std::string_view what, Duration& out) {
    return read_duration(node, path, what, false, out);
  }

  /// The two elements of an array such as ["5s", "10s"]; nullptr and a mistake when it is something else.
  const toml::array* pair(const toml::node& node, const std::string& path, std::string_view what,
                          std::string_view demand) {
    const toml::array* values = node.as_array();
    if (values != nullptr && values->size() == 2) return values;
    wrong_type(path, what, demand, values == nullptr ? type_name(node) : "an array of another size");
    return nullptr;
  }

  void add(std::string_view key, const std::string& message) { findings_->add(path_of(key), message); }

 private:
  static std::string plain(double value) {
    std::string text = std::to_string(value);
    while (text.ends_with('0')) text.pop_back();
    if (text.ends_with('.')) text.pop_back();
    return text;
  }

  bool read_duration(const toml::node& node, const std::string& path, std::string_view what, bool with_sign,
                     Duration& out) {
    const auto* value = node.as_string();
    if (value == nullptr) {
      wrong_type(path, what, "a duration in quotes, such as \"500ms\"", type_name(node));
      return false;
    }
    std::string_view text = value->get();
    const bool negative = with_sign && text.starts_with('-');
    if (negative) text.remove_prefix(1);
    const DurationResult result = parse_duration(text);
    if (!result) {
      findings_->add(path, std::string(what) + ' ' + result.error);
      return false;
    }
    if (result.value > longest_time) {
      findings_->add(path, std::string(what) + " must be at most " + format_duration(longest_time));
      return false;
    }
    out = negative ? -result.value : result.value;
    return true;
  }

  Findings* findings_;
};

/// "three_gateways" of "scenarios/three_gateways.toml".
std::string stem(const std::string& file) { return std::filesystem::path(file).stem().string(); }

class ScenarioDocument {
 public:
  ScenarioDocument(const toml::table& root, std::string file, Findings& findings)
      : root_(root, "", "the scenario", findings), file_(std::move(file)), findings_(findings) {}

  Scenario read(const Overrides& overrides) {
    scenario_.title = stem(file_);
    as_it_stands_ = overrides.algorithms.empty() && overrides.settings.empty();
    read_top(overrides);
    read_rules();
    read_nodes();
    read_keys();
    read_demands();
    connect_rules_with_keys();
    settle_rates();
    read_spread();
    read_store();
    read_regions();
    read_clocks();
    read_events();
    read_expectations();
    read_plot();
    root_.finish();
    return std::move(scenario_);
  }

 private:
  void add(const std::string& path, const std::string& message) { findings_.add(path, message); }

  void read_top(const Overrides& overrides) {
    root_.text("title", scenario_.title);
    root_.require("duration");
    root_.duration("duration", scenario_.duration);
    root_.duration("settle", scenario_.settle);
    if (root_.has("duration") && scenario_.duration <= Duration{})
      root_.add("duration", "duration must be longer than 0");
    else if (root_.has("settle") && scenario_.settle >= scenario_.duration)
      root_.add("settle", "settle must be shorter than the duration, or nothing is left to measure");
    root_.integer("seed", {0, std::numeric_limits<std::int64_t>::max()}, scenario_.seed);
    if (overrides.seed) scenario_.seed = *overrides.seed;
    root_.array("algorithms", "an array of algorithms, such as [\"cooldown\", \"shed\"]",
                [&](const toml::node& node, const std::string& at) {
                  std::string word;
                  if (root_.read_text(node, at, "an algorithm", word)) add_algorithm(word, at);
                });
    if (!overrides.algorithms.empty()) scenario_.algorithms.clear();
    for (const std::string& word : overrides.algorithms) add_algorithm(word, "--algorithm");
  }

  void add_algorithm(const std::string& word, const std::string& at) {
    std::vector<std::string_view> words;
    for (const Algorithm algorithm : algorithms) {
      words.push_back(weir::to_string(algorithm));
      if (words.back() == word) {
        scenario_.algorithms.push_back(algorithm);
        return;
      }
    }
    add(at, "unknown algorithm " + in_quotes(word) + suggestion(word, words, "there are"));
  }

  /// Calls `each(reader)` for every table of an array of tables.
  template <typename Each>
  void tables(std::string_view name, Each&& each) {
    const std::string key(name);
    const toml::node* node = root_.take(name);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) {
      // One alone need not be an array.
      if (const toml::table* table = node->as_table()) {
        Reader reader(*table, key + "[0]", "[" + key + "]", findings_);
        each(reader, *table);
        reader.finish();
        return;
      }
      root_.wrong_type(root_.path_of(key), key, "a table or an array of tables: write [[" + key + "]]",
                       type_name(*node));
      return;
    }
    std::size_t index = 0;
    for (const toml::node& element : *array) {
      const std::string path = key + '[' + std::to_string(index++) + ']';
      findings_.locate(path, location_of(element));
      if (const toml::table* table = element.as_table()) {
        Reader reader(*table, path, "[[" + key + "]]", findings_);
        each(reader, *table);
        reader.finish();
      } else {
        add(path, key + " must be an array of tables: write [[" + key + "]]");
      }
    }
  }

  template <typename Read>
  void table(std::string_view name, Read&& read) {
    const std::string key(name);
    const toml::table* found = root_.subtable(name);
    if (found == nullptr) return;
    Reader reader(*found, key, "[" + key + "]", findings_);
    read(reader);
    reader.finish();
  }

  void read_rules() {
    const toml::node* node = root_.take("rule");
    const toml::array* array = node != nullptr ? node->as_array() : nullptr;
    if (array == nullptr || array->empty() || !array->is_array_of_tables()) {
      if (node != nullptr) findings_.locate("rule", location_of(*node));
      add("rule", "a scenario needs at least one [[rule]]: the limit that is tried out");
      return;
    }
    for (const toml::node& element : *array) {
      findings_.locate(rule_path(scenario_.rules.size()), location_of(element));
      scenario_.rules.push_back(read_rule(*element.as_table(), scenario_.rules.size(), findings_));
    }
    Config config;
    config.node.name = "node";
    config.rules = scenario_.rules;
    check_values(config, findings_);
    std::string measured;
    root_.text("measure", measured);
    if (measured.empty()) return;
    std::vector<std::string_view> names;
    for (const Rule& rule : scenario_.rules) names.push_back(rule.name);
    const auto found = std::ranges::find(names, measured);
    scenario_.measured = static_cast<std::size_t>(found - names.begin());
    if (found == names.end()) {
      scenario_.measured = 0;
      root_.add("measure",
                "there is no rule " + in_quotes(measured) + suggestion(measured, names, "there are"));
    }
  }

  void read_nodes() {
    table("nodes", [&](Reader& reader) {
      reader.integer("count", {1, most_nodes}, scenario_.nodes);
      reader.integer("cores", {1, 255}, scenario_.cores);
      reader.integer("keys", keys_range, scenario_.node_keys);
    });
  }

  void read_keys() {
    tables("keys", [&](Reader& reader, const toml::table&) {
      KeySpace space;
      space.header = "key";
      std::uint32_t count = 1;
      std::string popularity = "uniform";
      reader.text("header", space.header);
      std::ranges::transform(space.header, space.header.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      });
      reader.integer("count", {1, static_cast<std::int64_t>(most_keys)}, count);
      reader.text("popularity", popularity);
      if (popularity == "zipf") space.zipf = 1;
      if (popularity != "zipf" && popularity != "uniform")
        reader.add("popularity", "popularity must be \"uniform\" or \"zipf\", not " + in_quotes(popularity));
      reader.number("s", {0, 10}, space.zipf);
      if (reader.has("s") && popularity != "zipf")
        reader.add("s", "s is the exponent of popularity = \"zipf\"");
      for (std::uint32_t i = 0; i < count; ++i) space.values.push_back("k" + std::to_string(i));
      scenario_.keys.push_back(std::move(space));
    });
    if (scenario_.keys.empty()) {
      // The common case of one key, under the header that the rule names, needs no [[keys]].
      KeySpace space{.header = "key", .values = {"k0"}, .zipf = 0};
      if (!scenario_.rules.empty() && !scenario_.rules[0].key.empty())
        space.header = scenario_.rules[0].key[0].name;
      scenario_.keys.push_back(std::move(space));
    }
  }

  void read_weight(Reader& reader, Demand& demand) {
    const toml::node* node = reader.take("weight");
    if (node == nullptr) return;
    const IntegerRange range{1, 1'000'000};
    if (!node->is_array()) {
      reader.integer(*node, reader.path_of("weight"), "weight", range, demand.weight_least);
      demand.weight_most = demand.weight_least;
      return;
    }
    const std::string path = reader.path_of("weight");
    const toml::array* pair = reader.pair(*node, path, "weight", "a whole number, or two such as [1, 5]");
    if (pair == nullptr) return;
    reader.integer(*pair->get(0), path, "weight", range, demand.weight_least);
    reader.integer(*pair->get(1), path, "weight", range, demand.weight_most);
    if (demand.weight_least > demand.weight_most) reader.add("weight", "weight must not begin above its end");
  }

  void read_points(Reader& reader, Demand& demand) {
    reader.array("points", "an array of points, such as [[\"0s\", 0.5], [\"10s\", 2]]",
                 [&](const toml::node& node, const std::string& at) {
                   const toml::array* pair =
                       reader.pair(node, at, "a point", "a time and a factor, such as [\"10s\", 2]");
                   if (pair == nullptr) return;
                   RatePoint point;
                   if (!reader.plain_duration(*pair->get(0), at, "a point's time", point.at)) return;
                   if (!reader.number(*pair->get(1), at, "a point's factor", {0, 1e6}, point.factor)) return;
                   if (!demand.points.empty() && point.at <= demand.points.back().at)
                     add(at, "a point's time must be later than that of the point before it");
                   demand.points.push_back(point);
                 });
    const bool wanted = demand.shape == Demand::Shape::step || demand.shape == Demand::Shape::ramp;
    if (wanted && demand.points.empty() && !reader.has("points"))
      reader.require("points");
    else if (!wanted && reader.has("points"))
      reader.add("points", "points belong to the shapes \"step\" and \"ramp\"");
  }

  void read_recording(Reader& reader, Demand& demand) {
    std::string name;
    reader.text("file", name);
    if (demand.shape != Demand::Shape::recorded) {
      if (reader.has("file")) reader.add("file", "file belongs to the shape \"recorded\"");
      return;
    }
    reader.require("file");
    if (name.empty()) return;
    if (recorded_) {
      reader.add("file", "only one [[demand]] can be recorded");
      return;
    }
    recorded_ = true;
    const std::filesystem::path path = std::filesystem::path(file_).parent_path() / name;
    scenario_.recording = path.string();
    std::string text;
    std::string wrong = read_whole_file(path.string(), text);
    KeySpace& space = scenario_.keys[0];
    // The recording brings its own keys, unless the scenario has asked for a choice.
    if (!root_.has("keys")) space.values.clear();
    if (wrong.empty()) wrong = parse_recording(text, path.string(), scenario_.nodes, space, demand.recording);
    if (space.values.empty()) space.values.emplace_back("k0");
    if (!wrong.empty()) reader.add("file", wrong);
  }

  void refuse_beside_recording(Reader& reader) {
    for (const std::string_view key : {"rate", "of_limit", "on", "off", "from", "until", "weight", "key"})
      if (reader.has(key))
        reader.add(key, std::string(key) +
                            " does not go with the shape \"recorded\": the recording has its own times, keys "
                            "and weights");
  }

  void read_demands() {
    tables("demand", [&](Reader& reader, const toml::table&) {
      Demand demand;
      constexpr std::array shapes{Demand::Shape::constant, Demand::Shape::poisson, Demand::Shape::step,
                                  Demand::Shape::ramp,     Demand::Shape::on_off,  Demand::Shape::recorded};
      constexpr std::array arrivals{Demand::Arrivals::regular, Demand::Arrivals::poisson};
      reader.word<Demand::Shape>("shape", shapes, demand.shape);
      if (demand.shape == Demand::Shape::constant) demand.arrivals = Demand::Arrivals::regular;
      reader.word<Demand::Arrivals>("arrivals", arrivals, demand.arrivals);
      double of_limit = 0;
      const bool recorded = demand.shape == Demand::Shape::recorded;
      reader.number("rate", {0, 1e9}, demand.rate);
      reader.number("of_limit", {0, 1e6}, of_limit);
      if (reader.has("rate") && reader.has("of_limit"))
        reader.add("of_limit", "give either rate or of_limit");
      else if (!recorded && !reader.has("rate") && !reader.has("of_limit"))
        findings_.add(reader.path_of("rate"), "[[demand]] lacks the key \"rate\" or \"of_limit\"");
      read_points(reader, demand);
      reader.duration("on", demand.on);
      reader.duration("off", demand.off);
      if (demand.shape == Demand::Shape::on_off) {
        for (const std::string_view key : {"on", "off"}) reader.require(key);
        if (reader.has("on") && reader.has("off") && (demand.on <= Duration{} || demand.off <= Duration{}))
          reader.add("on", "on and off must be longer than 0");
      } else if (!recorded) {
        for (const std::string_view key : {"on", "off"})
          if (reader.has(key)) reader.add(key, std::string(key) + " belongs to the shape \"on-off\"");
      }
      reader.duration("from", demand.from);
      reader.duration("until", demand.until);
      read_weight(reader, demand);
      read_recording(reader, demand);
      reader.integer("key", {0, static_cast<std::int64_t>(scenario_.keys[0].values.size()) - 1}, demand.key);
      if (recorded) refuse_beside_recording(reader);
      of_limit_.push_back(of_limit);
      scenario_.demands.push_back(std::move(demand));
    });
    if (scenario_.demands.empty() && !root_.has("demand"))
      add("demand", "a scenario needs at least one [demand]: what is offered");
  }

  void connect_rules_with_keys() {
    for (std::size_t i = 0; i < scenario_.rules.size(); ++i) {
      std::vector<std::size_t>& spaces = scenario_.spaces_of_rule.emplace_back();
      const Rule& rule = scenario_.rules[i];
      const std::string path = rule_path(i);
      if (!rule.match.methods.empty() || !rule.match.host.empty() || !rule.match.path.empty() ||
          !rule.match.destination_ports.empty())
        add(path + ".match", "a scenario's rules apply to all its requests: leave match out");
      for (std::size_t k = 0; k < rule.key.size(); ++k) {
        const auto found = std::ranges::find(scenario_.keys, rule.key[k].name, &KeySpace::header);
        if (rule.key[k].kind != Dimension::Kind::header || found == scenario_.keys.end())
          add(path + ".key[" + std::to_string(k) + ']',
              "a scenario's requests differ in the headers of its [[keys]] only: write \"header:" +
                  scenario_.keys[0].header + '"');
        else
          spaces.push_back(static_cast<std::size_t>(found - scenario_.keys.begin()));
      }
      if (scenario_.keys_of(i) > most_keys)
        add(path + ".key", "a rule of a scenario can have at most 4000000 keys");
    }
    // Room for every key twice over: a scenario is about limits, not about a full table, unless it says so.
    if (scenario_.node_keys == 0) {
      std::size_t keys = 0;
      for (std::size_t i = 0; i < scenario_.rules.size(); ++i) keys += scenario_.keys_of(i);
      scenario_.node_keys = static_cast<std::uint32_t>(std::clamp<std::size_t>(
          2 * keys, static_cast<std::size_t>(keys_range.least), static_cast<std::size_t>(keys_range.most)));
    }
  }

  // A multiple of the limit is one of every key's limit, on the average of the keys.
  void settle_rates() {
    if (scenario_.rules.empty()) return;
    const Rule& rule = scenario_.rules[scenario_.measured];
    if (rule.interval <= Duration{}) return;
    for (std::size_t i = 0; i < scenario_.demands.size(); ++i) {
      Demand& demand = scenario_.demands[i];
      if (of_limit_[i] <= 0) continue;
      const double keys = demand.key >= 0 ? 1 : static_cast<double>(scenario_.keys_of(scenario_.measured));
      const double weight =
          (demand.weight_least + demand.weight_most) / 2.0 * std::max<double>(rule.weight, 1);
      const double seconds = std::chrono::duration<double>(rule.interval).count();
      demand.rate = of_limit_[i] * static_cast<double>(rule.limit) * keys / seconds / weight;
    }
  }

  void read_spread() {
    table("spread", [&](Reader& reader) {
      constexpr std::array kinds{Spread::Kind::even, Spread::Kind::zipf, Spread::Kind::one,
                                 Spread::Kind::moving};
      reader.word<Spread::Kind>("kind", kinds, scenario_.spread.kind);
      reader.number("s", {0, 10}, scenario_.spread.zipf);
      reader.duration("period", scenario_.spread.period);
      if (reader.has("period") && scenario_.spread.period <= Duration{})
        reader.add("period", "period must be longer than 0");
      // Beside another kind they may be left from the one that --set has replaced.
      if (reader.has("kind")) return;
      if (reader.has("s")) reader.add("s", "s belongs to the kind \"zipf\"");
      if (reader.has("period")) reader.add("period", "period belongs to the kind \"moving\"");
    });
  }

  void read_round_trip(Reader& reader, RoundTrip& out) {
    const toml::node* node = reader.take("rtt");
    if (node == nullptr) return;
    if (node->is_string()) {
      reader.plain_duration(*node, reader.path_of("rtt"), "rtt", out.least);
      out.kind = RoundTrip::Kind::constant;
      return;
    }
    const toml::table* found = reader.subtable("rtt");
    if (found == nullptr) return;
    Reader inner(*found, reader.path_of("rtt"), "rtt", findings_);
    constexpr std::array kinds{RoundTrip::Kind::constant, RoundTrip::Kind::uniform,
                               RoundTrip::Kind::lognormal};
    inner.require("kind");
    inner.word<RoundTrip::Kind>("kind", kinds, out.kind);
    switch (out.kind) {
      case RoundTrip::Kind::constant:
        inner.require("value");
        inner.duration("value", out.least);
        break;
      case RoundTrip::Kind::uniform:
        for (const std::string_view key : {"from", "to"}) inner.require(key);
        inner.duration("from", out.least);
        inner.duration("to", out.most);
        if (out.least > out.most) inner.add("from", "from must not be longer than to");
        break;
      case RoundTrip::Kind::lognormal:
        inner.require("median");
        inner.duration("median", out.least);
        inner.number("sigma", {0, 5}, out.sigma);
        break;
    }
    inner.finish();
  }

  void read_store() {
    StoreSpec& store = scenario_.store;
    table("store", [&](Reader& reader) {
      read_round_trip(reader, store.round_trip);
      reader.number("loss_request", {0, 1}, store.loss_request);
      reader.number("loss_reply", {0, 1}, store.loss_reply);
      reader.array("outages", "an array of periods, such as [[\"5s\", \"10s\"]]",
                   [&](const toml::node& node, const std::string& at) {
                     const toml::array* pair =
                         reader.pair(node, at, "an outage", "two times, such as [\"5s\", \"10s\"]");
                     Period period;
                     if (pair == nullptr ||
                         !reader.plain_duration(*pair->get(0), at, "an outage", period.from) ||
                         !reader.plain_duration(*pair->get(1), at, "an outage", period.to))
                       return;
                     if (period.from >= period.to) add(at, "an outage must end after it has begun");
                     store.outages.push_back(period);
                   });
      reader.array("wipes", "an array of times, such as [\"5s\"]",
                   [&](const toml::node& node, const std::string& at) {
                     Duration when{};
                     if (reader.plain_duration(node, at, "a wipe's time", when)) store.wipes.push_back(when);
                   });
      reader.duration("timeout", store.timeout);
      reader.duration("reconnect", store.reconnect);
      if (!timeout_range.contains(store.timeout)) reader.add("timeout", timeout_range.demand("timeout"));
      if (!reconnect_range.contains(store.reconnect))
        reader.add("reconnect", reconnect_range.demand("reconnect"));
    });
  }

  void read_regions() {
    std::uint32_t sum = 0;
    tables("region", [&](Reader& reader, const toml::table&) {
      Region region;
      region.round_trip = scenario_.store.round_trip;
      reader.text("name", region.name);
      reader.require("nodes");
      reader.integer("nodes", {1, most_nodes}, region.nodes);
      read_round_trip(reader, region.round_trip);
      sum += region.nodes;
      scenario_.regions.push_back(std::move(region));
    });
    if (!scenario_.regions.empty() && sum != scenario_.nodes)
      root_.add("region", "the regions have " + std::to_string(sum) + " nodes together, but nodes.count is " +
                              std::to_string(scenario_.nodes));
  }

  void read_clocks() {
    ClockSpec& clocks = scenario_.clocks;
    table("clocks", [&](Reader& reader) {
      reader.duration("offset_max", clocks.offset_max);
      reader.number("drift_ppm_max", {0, 100'000}, clocks.drift_ppm_max);
      reader.array("offsets", "an array of durations, such as [\"3ms\", \"-3ms\"]",
                   [&](const toml::node& node, const std::string& at) {
                     Duration offset{};
                     if (reader.signed_duration(node, at, "an offset", offset))
                       clocks.offsets.push_back(offset);
                   });
      reader.array("drifts_ppm", "an array of numbers", [&](const toml::node& node, const std::string& at) {
        double drift = 0;
        if (reader.number(node, at, "a drift", {-100'000, 100'000}, drift))
          clocks.drifts_ppm.push_back(drift);
      });
      reader.array("jumps", "an array of tables, such as [{ node = 0, at = \"5s\", by = \"-2s\" }]",
                   [&](const toml::node& node, const std::string& at) {
                     const toml::table* jump = node.as_table();
                     if (jump == nullptr) {
                       reader.wrong_type(at, "a jump", "a table", type_name(node));
                       return;
                     }
                     Reader inner(*jump, at, "a jump", findings_);
                     ClockJump& added = clocks.jumps.emplace_back();
                     for (const std::string_view key : {"node", "at", "by"}) inner.require(key);
                     inner.integer("node", {0, scenario_.nodes - 1}, added.node);
                     inner.duration("at", added.at);
                     inner.signed_duration("by", added.by);
                     inner.finish();
                   });
    });
    std::ranges::stable_sort(clocks.jumps, {}, &ClockJump::at);
  }

  void read_events() {
    tables("event", [&](Reader& reader, const toml::table&) {
      ScenarioEvent event;
      constexpr std::array kinds{ScenarioEvent::Kind::crash, ScenarioEvent::Kind::restart,
                                 ScenarioEvent::Kind::join,  ScenarioEvent::Kind::leave,
                                 ScenarioEvent::Kind::pause, ScenarioEvent::Kind::cut};
      for (const std::string_view key : {"kind", "at", "node"}) reader.require(key);
      reader.word<ScenarioEvent::Kind>("kind", kinds, event.kind);
      reader.duration("at", event.at);
      reader.one_or_array("node", [&](const toml::node& node, const std::string& at) {
        std::uint32_t index = 0;
        reader.integer(node, at, "node", {0, scenario_.nodes - 1}, index);
        event.nodes.push_back(index);
      });
      reader.duration("for", event.length);
      const bool lasts = event.kind == ScenarioEvent::Kind::pause || event.kind == ScenarioEvent::Kind::cut;
      if (lasts) reader.require("for");
      if (!lasts && reader.has("for")) reader.add("for", "for belongs to the kinds \"pause\" and \"cut\"");
      std::string traffic = "others";
      reader.text("traffic", traffic);
      if (traffic != "others" && traffic != "lost")
        reader.add("traffic", "traffic must be \"others\" or \"lost\", not " + in_quotes(traffic));
      event.traffic_lost = traffic == "lost";
      scenario_.events.push_back(std::move(event));
    });
    std::ranges::stable_sort(scenario_.events, {}, &ScenarioEvent::at);
  }

  /// What the command line has changed may leave a gate out, but a scenario must not.
  void require_run(const Gate& gate, const std::string& at) {
    if (scenario_.rules.empty()) return;
    const Rule& rule = scenario_.rules[rule_of(scenario_, gate)];
    std::vector<Algorithm> runs = scenario_.algorithms;
    if (runs.empty()) runs.push_back(rule.algorithm);
    if (std::ranges::any_of(runs, [&](Algorithm algorithm) { return comes_to(gate, algorithm); })) return;
    std::vector<std::string_view> words;
    for (const Algorithm algorithm : runs) words.push_back(weir::to_string(algorithm));
    add(at, "no run comes to this gate: rule " + in_quotes(rule.name) + " runs under " + listed(words));
  }

  void read_gates(const toml::table& found, const std::string& path, const std::string& title,
                  const std::string& rule, const std::string& algorithm) {
    Reader reader(found, path, title, findings_);
    for (const Metric& metric : metrics()) {
      const toml::node* node = reader.take(metric.name);
      if (node == nullptr) continue;
      const std::string at = reader.path_of(metric.name);
      Gate gate{std::string(metric.name), rule, algorithm, 0, 0};
      const toml::array* pair = reader.pair(*node, at, metric.name, "a range, such as [-5, 5]");
      if (pair == nullptr) continue;
      const NumberRange any{-unbounded, unbounded};
      if (!reader.number(*pair->get(0), at, metric.name, any, gate.least) ||
          !reader.number(*pair->get(1), at, metric.name, any, gate.most))
        continue;
      if (gate.least > gate.most) add(at, std::string(metric.name) + " must not begin above its end");
      if (as_it_stands_) require_run(gate, at);
      scenario_.gates.push_back(std::move(gate));
    }
    if (algorithm.empty()) {
      for (const Algorithm value : algorithms) {
        const std::string word(weir::to_string(value));
        if (const toml::table* inner = reader.subtable(weir::to_string(value)))
          read_gates(*inner, reader.path_of(word), "[expect." + word + "]", rule, word);
      }
    }
    if (rule.empty() && algorithm.empty()) {
      if (const toml::table* named = reader.subtable("rule")) {
        Reader names(*named, reader.path_of("rule"), "[expect.rule]", findings_);
        for (const Rule& one : scenario_.rules)
          if (const toml::table* inner = names.subtable(one.name))
            read_gates(*inner, names.path_of(one.name), "[expect.rule." + one.name + "]", one.name, "");
        names.finish();
      }
    }
    reader.finish();
  }

  void read_expectations() {
    if (const toml::table* found = root_.subtable("expect")) read_gates(*found, "expect", "[expect]", "", "");
  }

  void read_plot() {
    table("plot", [&](Reader& reader) {
      reader.duration("bucket", scenario_.plot_bucket);
      if (reader.has("bucket") && scenario_.plot_bucket < std::chrono::milliseconds{1})
        reader.add("bucket", "bucket must be at least 1ms");
    });
  }

  Reader root_;
  std::string file_;
  Findings& findings_;
  Scenario scenario_;
  std::vector<double> of_limit_;  // by demand; 0: it has a rate
  bool recorded_ = false;
  bool as_it_stands_ = true;  // nothing but the seed comes from the command line
};

/// Puts `value` at the dotted path. @return empty, or what is wrong
std::string put(toml::node& where, std::string_view path, const toml::node& value) {
  const std::size_t dot = path.find('.');
  const std::string_view first = path.substr(0, dot);
  const bool last = dot == std::string_view::npos;
  if (toml::array* array = where.as_array()) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), index);
    const bool numbered = error == std::errc{} && end == first.data() + first.size();
    if (numbered) {
      if (index >= array->size()) return "there are only " + std::to_string(array->size()) + " of them";
      if (last) return "name a key of the table as well";
      return put(*array->get(index), path.substr(dot + 1), value);
    }
    for (toml::node& element : *array)
      if (const std::string wrong = put(element, path, value); !wrong.empty()) return wrong;
    return {};
  }
  toml::table* table = where.as_table();
  if (table == nullptr) return "what stands before " + in_quotes(path) + " is not a table";
  if (last) {
    value.visit([&](const auto& typed) { table->insert_or_assign(first, typed); });
    return {};
  }
  toml::node* next = table->get(first);
  if (next == nullptr) next = &*table->insert(first, toml::table{}).first->second.as_table();
  return put(*next, path.substr(dot + 1), value);
}

/// "key=value"; a value that is not TOML is taken as a string, so that rule.interval=1s needs no quotes.
std::string apply_setting(toml::table& root, const std::string& setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0)
    return "--set wants key=value, such as nodes.count=64, not " + in_quotes(setting);
  const std::string key = setting.substr(0, equals);
  const std::string text = setting.substr(equals + 1);
  TomlResult parsed = parse_toml("value = " + text);
  if (!parsed || parsed.root.size() != 1) {
    parsed = {};
    parsed.root.insert_or_assign("value", text);
  }
  const std::string wrong = put(root, key, *parsed.root.get("value"));
  return wrong.empty() ? wrong : "--set " + setting + ": " + wrong;
}

}  // namespace

ScenarioResult parse_scenario(std::string_view text, const std::string& file, const Overrides& overrides) {
  ScenarioResult result;
  TomlResult parsed = parse_toml(text);
  if (!parsed) {
    result.errors.push_back({file, parsed.where.line, parsed.where.column, parsed.error});
    return result;
  }
  for (const std::string& setting : overrides.settings)
    if (const std::string wrong = apply_setting(parsed.root, setting); !wrong.empty())
      result.errors.push_back({"", 0, 0, wrong});
  if (!result) return result;
  Findings findings(file);
  result.scenario = ScenarioDocument(parsed.root, file, findings).read(overrides);
  result.errors = findings.take();
  if (result)
    for (const Algorithm algorithm : result.scenario.algorithms)
      with_algorithm(result.scenario.rules, algorithm, result.errors);
  for (ConfigError& error : result.errors)
    if (error.file.empty()) error.file = file;
  return result;
}

ScenarioResult load_scenario(const std::string& path, const Overrides& overrides) {
  std::string text;
  if (const std::string wrong = read_whole_file(path, text); !wrong.empty()) {
    ScenarioResult result;
    result.errors.push_back({"", 0, 0, wrong});
    return result;
  }
  return parse_scenario(text, path, overrides);
}

std::vector<Rule> with_algorithm(const std::vector<Rule>& rules, Algorithm algorithm,
                                 std::vector<ConfigError>& errors) {
  std::vector<Rule> changed = rules;
  const Rule plain;
  for (Rule& rule : changed) {
    rule.algorithm = algorithm;
    Findings findings;
    check_combinations("rule", rule, findings);
    const auto leave_out = [&](std::string_view key, auto Rule::*value) {
      if (findings.faulty("rule." + std::string(key))) rule.*value = plain.*value;
    };
    leave_out("burst", &Rule::burst);
    leave_out("warmup", &Rule::warmup);
    leave_out("early_block", &Rule::early_block);
    leave_out("dephase", &Rule::dephase);
    leave_out("debt", &Rule::debt);
    leave_out("hold_back", &Rule::hold_back);
    leave_out("penalize", &Rule::penalize);
    leave_out("on_store_failure", &Rule::on_store_failure);
    leave_out("local_rule", &Rule::local_rule);
    // Any cooldown passes the check, because its default follows the rule's interval.
    if (!foreign_key("cooldown", algorithm).empty()) rule.cooldown = rule.interval;
  }
  Config config;
  config.node.name = "node";
  config.rules = changed;
  for (ConfigError& error : check_config(config)) {
    error.message = "under algorithm " + std::string(weir::to_string(algorithm)) + ": " + error.message;
    errors.push_back(std::move(error));
  }
  return changed;
}

}  // namespace weir::sim
