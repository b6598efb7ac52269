// SPDX-License-Identifier: BSD-3-Clause
// Why the counters lie in Redis as they do: what the server and the client spend on a key under each
// candidate, all in one run. Commands are made beforehand and sent over a bare socket, sixteen batches under
// way, so that the server is what is measured; the candidates take turns; every figure is a median. The sums
// are checked.
//
//   bench-layouts --keys 1000000 --repetitions 5
//   bench-layouts --keys 20000 --only hincrby --only packed     (where a hash is short)
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "layouts.h"
#include "redis_server.h"
#include "statistics.h"

namespace weir::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t window = 16;

struct Options {
  std::size_t keys = 1'000'000;
  std::size_t repetitions = 5;
  std::vector<std::string> only;  // empty: all
  bool json = false;
};

/// Per key: nanoseconds, of processor time where it says so, and bytes.
struct Reading {
  double server_cpu = 0;
  double wall = 0;
  double format_cpu = 0;    // to make the commands
  double transfer_cpu = 0;  // to send them and to read the answers
  double bytes_in = 0;      // at the server
  double bytes_out = 0;
};

struct Row {
  std::vector<Reading> cold;
  std::vector<Reading> warm;
};

double nanoseconds(Duration duration) { return std::chrono::duration<double, std::nano>(duration).count(); }

/// The commands of all batches, one after the other.
struct Commands {
  std::string bytes;
  struct Part {
    std::size_t end = 0;        // in the bytes
    std::uint64_t replies = 0;  // to all up to here
  };
  std::vector<Part> batches;
};

/// @param first  number of the first batch
Commands make_commands(const Layout& layout, const KeySet& keys,
                       const std::vector<std::vector<std::uint32_t>>& partitions, std::uint64_t first) {
  Commands commands;
  std::uint64_t replies = 0;
  // A batch of each partition in turn: what a store has under way belongs to different ones.
  bool more = true;
  for (std::size_t begin = 0; more; begin += layout.batch, ++first) {
    more = false;
    for (std::uint32_t partition = 0; partition < partitions.size(); ++partition) {
      const std::vector<std::uint32_t>& all = partitions[partition];
      if (begin >= all.size()) continue;
      more = true;
      const std::size_t size = std::min(layout.batch, all.size() - begin);
      replies += layout.append(commands.bytes, keys,
                               {.partition = partition, .sequence = first, .keys = {&all[begin], size}});
      commands.batches.push_back({commands.bytes.size(), replies});
    }
  }
  return commands;
}

Reading measure(RedisServer& server, Wire& wire, const Layout& layout, const KeySet& keys,
                const std::vector<std::vector<std::uint32_t>>& partitions, std::uint64_t pass) {
  const Duration format_begin = thread_cpu();
  const Commands commands = make_commands(layout, keys, partitions, pass * keys.size());
  const Duration format = thread_cpu() - format_begin;

  wire.reset();
  const std::uint64_t sent = wire.bytes_sent();
  const std::uint64_t received = wire.bytes_received();
  const Duration server_begin = server.figures().cpu;
  const auto begin = std::chrono::steady_clock::now();
  const Duration cpu_begin = thread_cpu();
  const std::vector<Commands::Part>& batches = commands.batches;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const std::size_t from = i == 0 ? 0 : batches[i - 1].end;
    wire.send(std::string_view(commands.bytes).substr(from, batches[i].end - from));
    if (i < window) continue;
    while (wire.answered().replies < batches[i - window].replies) wire.receive();
  }
  while (wire.answered().replies < batches.back().replies) wire.receive();
  const Duration transfer = thread_cpu() - cpu_begin;
  const Duration wall = std::chrono::steady_clock::now() - begin;
  const Duration server_cpu = server.figures().cpu - server_begin;

  if (wire.answered().errors != 0) throw std::runtime_error(layout.name + ": " + wire.answered().error);
  if (layout.answers_sums && wire.answered().sum != static_cast<std::int64_t>(pass * keys.sum))
    throw std::runtime_error(layout.name + ": the answers' sum is " + std::to_string(wire.answered().sum) +
                             ", not " + std::to_string(pass * keys.sum));
  const auto count = static_cast<double>(keys.size());
  return {.server_cpu = nanoseconds(server_cpu) / count,
          .wall = nanoseconds(wall) / count,
          .format_cpu = nanoseconds(format) / count,
          .transfer_cpu = nanoseconds(transfer) / count,
          .bytes_in = static_cast<double>(wire.bytes_sent() - sent) / count,
          .bytes_out = static_cast<double>(wire.bytes_received() - received) / count};
}

void print(const Layout& layout, const char* state, const std::vector<Reading>& readings, double base) {
  const double server = median_of(readings, &Reading::server_cpu);
  std::printf("%s  %-17s %7.0f %6.2f %7.0f %7.0f %8.0f %7.1f %6.1f  %s\n", state, layout.name.c_str(), server,
              base / server, median_of(readings, &Reading::wall), median_of(readings, &Reading::format_cpu),
              median_of(readings, &Reading::transfer_cpu), median_of(readings, &Reading::bytes_in),
              median_of(readings, &Reading::bytes_out), layout.description.c_str());
}

Json to_json(const Layout& layout, const char* state, const std::vector<Reading>& readings, double base) {
  const double server = median_of(readings, &Reading::server_cpu);
  return {{"layout", layout.name},
          {"state", state},
          {"server_ns_per_key", rounded(server)},
          {"of_incrby", rounded(base / server)},
          {"wall_ns_per_key", rounded(median_of(readings, &Reading::wall))},
          {"format_ns_per_key", rounded(median_of(readings, &Reading::format_cpu))},
          {"transfer_ns_per_key", rounded(median_of(readings, &Reading::transfer_cpu))},
          {"bytes_to_server_per_key", rounded(median_of(readings, &Reading::bytes_in))},
          {"bytes_from_server_per_key", rounded(median_of(readings, &Reading::bytes_out))}};
}

/// The first, which the others are compared to, and those asked for.
std::vector<Layout> chosen(std::vector<Layout> layouts, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::ranges::find(layouts, name, &Layout::name) == layouts.end()) {
      std::string known;
      for (const Layout& layout : layouts) known += (known.empty() ? "\"" : "\", \"") + layout.name;
      throw std::runtime_error("there is no layout \"" + name + "\"; there are " + known + '"');
    }
  if (!names.empty())
    std::erase_if(layouts, [&, first = layouts.front().name](const Layout& layout) {
      return layout.name != first && std::ranges::find(names, layout.name) == names.end();
    });
  return layouts;
}

void run_layouts(RedisServer& server, const Options& options) {
  Wire wire(server.address());
  const std::vector<Layout> layouts = chosen(make_layouts(wire), options.only);
  const KeySet keys = make_keys(options.keys);
  const auto partitions = partitioned(keys);
  std::vector<Row> rows(layouts.size());
  for (std::size_t repetition = 0; repetition < options.repetitions; ++repetition)
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      server.clear();
      rows[i].cold.push_back(measure(server, wire, layouts[i], keys, partitions, 1));
      rows[i].warm.push_back(measure(server, wire, layouts[i], keys, partitions, 2));
    }
  server.clear();

  Json json = {{"server", server.version()},
               {"keys", options.keys},
               {"repetitions", options.repetitions},
               {"results", Json::array()}};
  if (!options.json)
    std::printf(
        "Redis %s, %zu keys, medians of %zu; per key: ns of the server's processor time, its ratio to "
        "INCRBY, ns of\n"
        "real time, ns of the client's processor time (making the commands; sending and reading), bytes.\n\n"
        "      %-17s %7s %6s %7s %7s %8s %7s %6s\n",
        server.version().c_str(), options.keys, options.repetitions, "layout", "server", "ratio", "wall",
        "format", "transfer", "to", "from");
  for (const bool cold : {false, true}) {
    const char* state = cold ? "cold" : "warm";
    const auto readings = [cold](const Row& row) -> const std::vector<Reading>& {
      return cold ? row.cold : row.warm;
    };
    const double base = median_of(readings(rows[0]), &Reading::server_cpu);
    for (std::size_t i = 0; i < layouts.size(); ++i)
      if (options.json)
        json["results"].push_back(to_json(layouts[i], state, readings(rows[i]), base));
      else
        print(layouts[i], state, readings(rows[i]), base);
  }
  if (options.json) std::printf("%s\n", json.dump(2).c_str());
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Measures candidates for how counters lie in Redis and how a batch of counts is applied to them: what "
      "the\n"
      "server and the client spend on a key. The candidates take turns; all figures are medians.",
      "bench-layouts");
  app.footer(
      "Starts redis-server (or what WEIR_REDIS_SERVER names) on a unix socket in a folder of its own, and "
      "ends\n"
      "it. Exit status: 0 good, 1 a sum was wrong or something failed, 2 wrong command line.");
  app.add_option("--keys", options.keys, "how many counters")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "turns of each candidate")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", options.json, "JSON instead of a table");
  app.add_option("--only", options.only, "this candidate, beside INCRBY; may be repeated")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  RedisServer server("");
  run_layouts(server, options);
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) try {
  return weir::bench::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench-layouts: %s\n", error.what());
  return 1;
}
