// SPDX-License-Identifier: BSD-3-Clause
// What it costs to synchronise counters with Redis: weir's store beside what one would write without it, and
// beside what the server can do at best, all in one run. The contenders take turns, so that the machine's
// noise hits all alike; every figure is a median. Each turn is a cold pass (no counter exists yet) and a warm
// one (all do), and ends with a check that the sums on the server are what was submitted.
//
//   bench-store --keys 100000 --repetitions 9
//   bench-store span --nodes 8 --keys 100000
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "contender.h"
#include "redis_server.h"
#include "span.h"
#include "statistics.h"

namespace weir::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::size_t> keys{10'000, 100'000, 1'000'000};
  std::vector<std::size_t> nodes{1, 2, 8};
  std::size_t repetitions = 5;
  std::string url;
  bool json = false;
  SpanTerms span;
  std::string layout{to_string(StoreLayout::hash)};  // of span
};

/// Per key, but for the first.
struct Reading {
  double keys_per_second = 0;
  double server_ns = 0;
  double caller_ns = 0;
  double other_ns = 0;
  double bytes_in = 0;
  double bytes_out = 0;
};

struct Row {
  std::size_t keys = 0;
  std::vector<Reading> cold;
  std::vector<Reading> warm;
};

double nanoseconds(Duration duration) { return std::chrono::duration<double, std::nano>(duration).count(); }

Reading read(RedisServer& server, Contender& contender, const KeySet& keys, Interval interval) {
  const ServerFigures before = server.figures();
  const Pass pass = contender.synchronise(keys, interval);
  const ServerFigures after = server.figures();
  const auto count = static_cast<double>(pass.keys);
  return {.keys_per_second = count / std::chrono::duration<double>(pass.wall).count(),
          .server_ns = nanoseconds(after.cpu - before.cpu) / count,
          .caller_ns = nanoseconds(pass.caller_cpu) / count,
          .other_ns = nanoseconds(pass.other_cpu) / count,
          .bytes_in = static_cast<double>(after.bytes_in - before.bytes_in) / count,
          .bytes_out = static_cast<double>(after.bytes_out - before.bytes_out) / count};
}

/// All contenders with one set of keys.
std::vector<Row> compare(RedisServer& server, const std::vector<std::unique_ptr<Contender>>& contenders,
                         std::size_t keys, std::size_t repetitions) {
  const KeySet all = make_keys(keys);
  std::vector<Row> rows(contenders.size());
  // Of no earlier run on the same server.
  auto ordinal = static_cast<Ordinal>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition)
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      Contender& contender = *contenders[i];
      const KeySet own = contender.most_keys() < keys ? make_keys(contender.most_keys()) : KeySet{};
      const KeySet& given = own.size() > 0 ? own : all;
      ++ordinal;
      rows[i].keys = given.size();
      rows[i].cold.push_back(read(server, contender, given, {.ordinal = ordinal, .pass = 1}));
      rows[i].warm.push_back(read(server, contender, given, {.ordinal = ordinal, .pass = 2}));
      contender.check(given, {.ordinal = ordinal, .pass = 2});
      server.clear();
    }
  return rows;
}

/// @param ceiling  whose figures count as 1
void print(const char* state, std::string_view name, std::size_t keys, const std::vector<Reading>& readings,
           const std::vector<Reading>& ceiling) {
  const double rate = median_of(readings, &Reading::keys_per_second);
  const double server = median_of(readings, &Reading::server_ns);
  std::printf("%9zu %s  %-13s %11.0f %6.2f %8.0f %6.2f %8.0f %8.0f %7.1f %7.1f\n", keys, state,
              std::string(name).c_str(), rate, rate / median_of(ceiling, &Reading::keys_per_second), server,
              median_of(ceiling, &Reading::server_ns) / server, median_of(readings, &Reading::caller_ns),
              median_of(readings, &Reading::other_ns), median_of(readings, &Reading::bytes_in),
              median_of(readings, &Reading::bytes_out));
}

Json to_json(const char* state, std::string_view name, std::size_t keys, const std::vector<Reading>& readings,
             const std::vector<Reading>& ceiling) {
  const double rate = median_of(readings, &Reading::keys_per_second);
  const double server = median_of(readings, &Reading::server_ns);
  return {{"contender", name},
          {"state", state},
          {"keys", keys},
          {"keys_per_second", rounded(rate)},
          {"rate_of_ceiling", rounded(rate / median_of(ceiling, &Reading::keys_per_second))},
          {"server_ns_per_key", rounded(server)},
          {"server_of_ceiling", rounded(median_of(ceiling, &Reading::server_ns) / server)},
          {"caller_ns_per_key", rounded(median_of(readings, &Reading::caller_ns))},
          {"helper_ns_per_key", rounded(median_of(readings, &Reading::other_ns))},
          {"bytes_to_server_per_key", rounded(median_of(readings, &Reading::bytes_in))},
          {"bytes_from_server_per_key", rounded(median_of(readings, &Reading::bytes_out))}};
}

void run_comparison(RedisServer& server, const Options& options) {
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(make_ceiling_contender(server));
  for (const std::size_t nodes : options.nodes)
    for (const StoreLayout layout : {StoreLayout::hash, StoreLayout::exchange})
      contenders.push_back(make_store_contender(server, layout, nodes));
  contenders.push_back(make_store_contender(server, StoreLayout::plain, 1));
  contenders.push_back(make_pipelined_contender(server));
  contenders.push_back(make_naive_contender(server));

  Json json = {
      {"server", server.version()}, {"repetitions", options.repetitions}, {"results", Json::array()}};
  if (!options.json) {
    std::printf(
        "Redis %s at %s; medians of %zu. Keys per second and processor time in ns per key: of the server, of "
        "the\n"
        "calling thread, of what helps it (weir's own thread; redis-benchmark). Ratios to the ceiling; more "
        "is\n"
        "better. Bytes per key to and from the server.\n",
        server.version().c_str(), server.address().describe().c_str(), options.repetitions);
    for (const auto& contender : contenders)
      std::printf("  %-12s %s\n", std::string(contender->name()).c_str(),
                  std::string(contender->description()).c_str());
    std::printf("\n%9s %s  %-13s %11s %6s %8s %6s %8s %8s %7s %7s\n", "keys", "    ", "contender", "keys/s",
                "ratio", "server", "ratio", "caller", "helper", "to", "from");
  }
  for (const std::size_t keys : options.keys) {
    const std::vector<Row> rows = compare(server, contenders, keys, options.repetitions);
    for (const bool cold : {false, true}) {
      const auto readings = [cold](const Row& row) -> const std::vector<Reading>& {
        return cold ? row.cold : row.warm;
      };
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const char* state = cold ? "cold" : "warm";
        if (options.json)
          json["results"].push_back(
              to_json(state, contenders[i]->name(), rows[i].keys, readings(rows[i]), readings(rows[0])));
        else
          print(state, contenders[i]->name(), rows[i].keys, readings(rows[i]), readings(rows[0]));
      }
    }
    std::fflush(stdout);
  }
  if (options.json) std::printf("%s\n", json.dump(2).c_str());
}

Json to_json(const SpanTrial& trial) {
  const auto milliseconds = [](Duration duration) { return rounded(nanoseconds(duration) / 1e6); };
  return {{"span_ms", milliseconds(trial.span)},
          {"held", trial.held},
          {"slowest_sync_ms", milliseconds(trial.slowest)},
          {"server_cores", rounded(trial.server_cores)},
          {"nodes_cores", rounded(trial.nodes_cores)},
          {"busy_cores", rounded(trial.busy_cores)},
          {"bytes_to_server_per_second", rounded(trial.bytes_in_per_second)},
          {"bytes_from_server_per_second", rounded(trial.bytes_out_per_second)}};
}

void print(const SpanTrial& trial) {
  std::printf("%9.0f %5s %10.0f %8.2f %8.2f %8.2f %8.1f %8.1f\n", nanoseconds(trial.span) / 1e6,
              trial.span.count() == 0 ? "-"
              : trial.held            ? "yes"
                                      : "no",
              nanoseconds(trial.slowest) / 1e6, trial.server_cores, trial.nodes_cores, trial.busy_cores,
              trial.bytes_in_per_second / 1e6, trial.bytes_out_per_second / 1e6);
}

void run_span(RedisServer& server, const Options& options) {
  const SpanResult result = find_span(server, options.span);
  if (options.json) {
    Json trials = Json::array();
    for (const SpanTrial& trial : result.trials) trials.push_back(to_json(trial));
    const Json json = {{"server", server.version()}, {"nodes", options.span.nodes},
                       {"keys", options.span.keys},  {"state", options.span.cold ? "cold" : "warm"},
                       {"cores", result.cores},      {"shortest", to_json(result.best)},
                       {"bound_by", result.bound},   {"trials", trials}};
    std::printf("%s\n", json.dump(2).c_str());
    return;
  }
  std::printf(
      "Redis %s at %s; %zu nodes with %zu active keys each, the same ones, %s; %zu spans per trial.\n"
      "Cores in use: by the server, by all nodes, by everything on this machine.\n\n",
      server.version().c_str(), server.address().describe().c_str(), options.span.nodes, options.span.keys,
      options.span.cold ? "new counters in every span" : "counters that exist", options.span.spans);
  std::printf("%9s %5s %10s %8s %8s %8s %8s %8s\n", "span, ms", "held", "slowest", "server", "nodes", "busy",
              "MB/s to", "from");
  for (const SpanTrial& trial : result.trials) print(trial);
  std::printf(
      "\nThe shortest span that was held: %.0f ms. Of %.0f cores the server used %.2f and the nodes %.2f.\n"
      "Bound by %s.\n",
      nanoseconds(result.best.span) / 1e6, result.cores, result.best.server_cores, result.best.nodes_cores,
      result.bound.c_str());
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Measures what it costs to synchronise counters with Redis: weir's store in all layouts, one command "
      "per\n"
      "round trip and a pipeline with hiredis, and as the ceiling redis-benchmark's own pipelined INCRBY. "
      "The\n"
      "contenders take turns; all figures are medians; the sums on the server are checked after every turn.",
      "bench-store");
  app.footer(
      "Starts redis-server (or what WEIR_REDIS_SERVER names) on a unix socket in a folder of its own, and "
      "ends\n"
      "it. Needs redis-benchmark. Exit status: 0 good, 1 a sum was wrong or something failed, 2 wrong "
      "command\n"
      "line.");
  app.add_option("--keys", options.keys, "sizes of the key sets, such as 10000,1000000")
      ->delimiter(',')
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  app.add_option("--nodes", options.nodes,
                 "numbers of nodes for the layouts hash and exchange, such as 1,8,32")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "turns of each contender")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--url", options.url, "an existing server, instead of one of its own; it is not emptied");
  app.add_flag("--json", options.json, "JSON instead of a table");

  CLI::App& span = *app.add_subcommand(
      "span", "finds the shortest span in which all nodes get all keys synchronised, and what bounds it");
  span.add_option("--nodes", options.span.nodes, "processes with a store each")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  span.add_option("--keys", options.span.keys, "keys that are active on every node")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  span.add_option("--spans", options.span.spans, "spans of one trial")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  span.add_flag("--cold", options.span.cold, "new counters in every span, instead of the same ones");
  span.add_option("--layout", options.layout)
      ->check(CLI::IsMember({"hash", "plain", "exchange"}))
      ->capture_default_str();
  span.add_option("--url", options.url, "an existing server, instead of one of its own; it is not emptied");
  span.add_flag("--json", options.json, "JSON instead of a table");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const StoreLayout layout : {StoreLayout::hash, StoreLayout::plain, StoreLayout::exchange})
    if (options.layout == to_string(layout)) options.span.layout = layout;
  RedisServer server(options.url);
  if (span.parsed())
    run_span(server, options);
  else
    run_comparison(server, options);
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) try {
  return weir::bench::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench-store: %s\n", error.what());
  return 1;
}
