// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// weir-traffic: plays the clients on one DPDK port and the servers on another, with whatever is to be tested
/// between the two, and reports what came through. One core, mostly asleep.
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "command-line/whole_number.h"
#include "play.h"

namespace {

using namespace weir::traffic;

constexpr std::uint16_t descriptors = 512;
constexpr std::uint16_t burst = 32;
constexpr unsigned mbufs = 8191;

constexpr int exit_good = 0;
constexpr int exit_failure = 1;  // something was changed or lost, or has failed
constexpr int exit_usage = 2;    // the command line is wrong

std::atomic<bool> interrupted{false};

/// Both ends are allowed.
struct Range {
  double least;
  double most;
};
constexpr Range seconds_range{0.1, 1e6};
constexpr Range rate_range{0.001, 1000};

struct Options {
  double seconds = 10;
  double rate = 1;
  std::uint64_t seed = 1;
  std::uint16_t clients_port = 0;
  std::uint16_t servers_port = 1;
};

/// A DPDK port with one queue each way.
class Port {
 public:
  Port(std::uint16_t id, rte_mempool* pool) : id_(id), pool_(pool) {}

  bool start() {
    rte_eth_conf configuration{};
    return rte_eth_dev_configure(id_, 1, 1, &configuration) == 0 &&
           rte_eth_rx_queue_setup(id_, 0, descriptors, SOCKET_ID_ANY, nullptr, pool_) == 0 &&
           rte_eth_tx_queue_setup(id_, 0, descriptors, SOCKET_ID_ANY, nullptr) == 0 &&
           rte_eth_dev_start(id_) == 0;
  }

  bool link_up() const {
    rte_eth_link link{};
    return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  }

  /// Puts a frame onto the wire; waits a little where it is full, and counts what had to be dropped in the
  /// end.
  void send(const Frame& frame) {
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_);
    char* room =
        mbuf == nullptr ? nullptr : rte_pktmbuf_append(mbuf, static_cast<std::uint16_t>(frame.size()));
    if (room != nullptr) {
      std::memcpy(room, frame.data(), frame.size());
      for (int attempt = 0; attempt < 100; ++attempt) {
        if (rte_eth_tx_burst(id_, 0, &mbuf, 1) == 1) return;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
    rte_pktmbuf_free(mbuf);
    ++unsent_;
  }

  /// Hands over what has come in. @return whether there was anything
  template <typename Take>
  bool receive(Take&& take) {
    std::array<rte_mbuf*, burst> packets;
    const std::uint16_t count = rte_eth_rx_burst(id_, 0, packets.data(), burst);
    for (std::uint16_t i = 0; i < count; ++i) {
      std::array<std::uint8_t, 2048> scratch;
      const std::uint32_t length = std::min<std::uint32_t>(rte_pktmbuf_pkt_len(packets[i]), scratch.size());
      const void* bytes = rte_pktmbuf_read(packets[i], 0, length, scratch.data());
      if (bytes != nullptr) take(std::span(static_cast<const std::uint8_t*>(bytes), length));
      rte_pktmbuf_free(packets[i]);
    }
    return count > 0;
  }

  void stop() {
    rte_eth_dev_stop(id_);
    rte_eth_dev_close(id_);
  }

  std::uint64_t unsent() const { return unsent_; }

 private:
  std::uint16_t id_;
  rte_mempool* pool_;
  std::uint64_t unsent_ = 0;
};

/// A frame that belongs to no play (an ethertype for local experiments), to try out the wire with.
const Frame& probe() {
  static const Frame frame = [] {
    Frame bytes(60);
    bytes[0] = 0x02;
    bytes[6] = 0x02;
    bytes[12] = 0x88;
    bytes[13] = 0xb5;
    return bytes;
  }();
  return frame;
}

bool is_probe(std::span<const std::uint8_t> frame) { return std::ranges::equal(frame, probe()); }

/// Sends probes until they have come through both ways: a link that is up here may not yet be up at its other
/// end.
bool wire_is_through(Port& clients, Port& servers, std::chrono::steady_clock::time_point until) {
  bool to_servers = false;
  bool to_clients = false;
  while (!interrupted && std::chrono::steady_clock::now() < until) {
    if (clients.link_up() && servers.link_up()) {
      clients.send(probe());
      servers.send(probe());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    servers.receive([&](std::span<const std::uint8_t> frame) { to_servers |= is_probe(frame); });
    clients.receive([&](std::span<const std::uint8_t> frame) { to_clients |= is_probe(frame); });
    if (to_servers && to_clients) return true;
  }
  return false;
}

void print_crowd(const std::string& route, const std::string& crowd, const std::string& source,
                 const CrowdFigures& figures) {
  std::printf("%s name=%s", crowd.empty() ? "route" : "crowd", route.c_str());
  if (!crowd.empty()) std::printf(" who=%s source=%s", crowd.c_str(), source.c_str());
  std::printf(
      " sent=%llu arrived=%llu answered=%llu limited=%llu reset=%llu unanswered=%llu\n",
      static_cast<unsigned long long>(figures.sent), static_cast<unsigned long long>(figures.arrived),
      static_cast<unsigned long long>(figures.answered), static_cast<unsigned long long>(figures.limited),
      static_cast<unsigned long long>(figures.reset), static_cast<unsigned long long>(figures.unanswered));
}

/// @return whether everything that nobody had a reason to touch came through as it was
bool report(const Play& play, std::uint64_t unsent) {
  std::map<std::string, CrowdFigures> routes;
  for (std::size_t i = 0; i < play.cast().size(); ++i) {
    const Crowd& crowd = play.cast()[i];
    if (crowd.speech != Speech::http) continue;
    const CrowdFigures& figures = play.figures(i);
    CrowdFigures& route = routes[crowd.route];
    route.sent += figures.sent;
    route.arrived += figures.arrived;
    route.answered += figures.answered;
    route.limited += figures.limited;
    route.reset += figures.reset;
    route.unanswered += figures.unanswered;
    std::string who = crowd.name;
    std::replace(who.begin(), who.end(), ' ', '-');
    std::string source = address_text(crowd.address);
    if (crowd.addresses > 1) source += "-" + address_text(crowd.address + crowd.addresses - 1);
    print_crowd(crowd.route, who, source, figures);
  }
  for (const auto& [name, figures] : routes) print_crowd(name, "", "", figures);

  const PacketFigures& packets = play.packets();
  std::printf(
      "packets other_sent=%llu other_arrived=%llu lost=%llu reordered=%llu altered=%llu bad_replies=%llu "
      "server_resets=%llu unsent=%llu\n",
      static_cast<unsigned long long>(packets.sent), static_cast<unsigned long long>(packets.arrived),
      static_cast<unsigned long long>(packets.lost), static_cast<unsigned long long>(packets.reordered),
      static_cast<unsigned long long>(packets.altered), static_cast<unsigned long long>(packets.bad_replies),
      static_cast<unsigned long long>(packets.server_resets), static_cast<unsigned long long>(unsent));
  const bool untouched =
      packets.arrived > 0 &&
      packets.lost + packets.reordered + packets.altered + packets.bad_replies + unsent == 0;
  std::printf("verdict=%s\n", untouched ? "untouched" : "failed");
  return untouched;
}

int play_on(const Options& options) {
  for (const std::uint16_t id : {options.clients_port, options.servers_port}) {
    if (rte_eth_dev_is_valid_port(id) == 0) {
      std::fprintf(stderr, "weir-traffic: there is no port %u; name two, e.g. with --vdev=net_memif0,…\n",
                   id);
      return exit_failure;
    }
  }
  rte_mempool* pool =
      rte_pktmbuf_pool_create("traffic", mbufs, 128, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (pool == nullptr) {
    std::fprintf(stderr, "weir-traffic: no memory for %u packet buffers; give EAL more, e.g. -m 128\n",
                 mbufs);
    return exit_failure;
  }
  Port clients(options.clients_port, pool);
  Port servers(options.servers_port, pool);
  if (!clients.start() || !servers.start()) {
    std::fprintf(stderr, "weir-traffic: a port would not start\n");
    return exit_failure;
  }

  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds for_the_wire(20);
  if (!wire_is_through(clients, servers, Clock::now() + for_the_wire)) {
    std::fprintf(stderr,
                 "weir-traffic: nothing comes through from port %u to port %u and back within %lld s\n",
                 options.clients_port, options.servers_port, static_cast<long long>(for_the_wire.count()));
    return exit_failure;
  }

  Play play(default_cast(), options.rate, options.seed,
            [&](Side from, const Frame& frame) { (from == Side::clients ? clients : servers).send(frame); });
  const auto begun = Clock::now();
  const Moment open_until =
      std::chrono::duration_cast<Moment>(std::chrono::duration<double>(options.seconds));
  // The last connections may take their time, but not for ever.
  const Moment end = open_until + 3 * Play::patience;
  for (Moment now{}; now < end; now = Clock::now() - begun) {
    const bool opening = now < open_until && !interrupted;
    if (opening)
      play.arrive(now);
    else if (play.quiet())
      break;
    const auto take = [&play, now](Side side) {
      return [&play, side, now](std::span<const std::uint8_t> frame) {
        if (!is_probe(frame)) play.receive(side, frame, now);
      };
    };
    bool busy = servers.receive(take(Side::servers));
    busy |= clients.receive(take(Side::clients));
    play.give_up(now);
    if (!busy) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  play.give_up(Moment::max());

  std::printf("traffic seconds=%g rate=%g seed=%llu\n", options.seconds, options.rate,
              static_cast<unsigned long long>(options.seed));
  int status = report(play, clients.unsent() + servers.unsent()) ? exit_good : exit_failure;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "weir-traffic: the report could not be written\n");
    status = exit_failure;
  }
  clients.stop();
  servers.stop();
  return status;
}

void require(const char* option, double value, Range range) {
  // Written so that "nan" fails too.
  if (value >= range.least && value <= range.most) return;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "not between %.15g and %.15g", range.least, range.most);
  throw CLI::ValidationError(option, text.data());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Plays the clients of a small web application on one DPDK port and its servers on another, and reports "
      "what\n"
      "came through. EAL options come first, then --, then the options below.",
      "weir-traffic");
  app.footer(
      "Exit status: 0 all that nobody had a reason to touch came through as it was, 1 it did not, DPDK or a "
      "port failed,\n"
      "or the report could not be written, 2 wrong command line.");
  Options options;
  app.add_option("--seconds", options.seconds, "how long new connections open; 0.1 to 1000000")
      ->capture_default_str();
  app.add_option("--rate", options.rate,
                 "multiplies every crowd's rate, by 0.001 to 1000; 1: about 1000 requests a second")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the arrivals and the requests")
      ->transform(weir::command_line::whole_number())
      ->capture_default_str();
  const CLI::Validator port = weir::command_line::whole_number(std::numeric_limits<std::uint16_t>::max());
  app.add_option("--clients-port", options.clients_port, "DPDK port of the clients")
      ->transform(port)
      ->capture_default_str();
  app.add_option("--servers-port", options.servers_port, "DPDK port of the servers")
      ->transform(port)
      ->capture_default_str();

  // EAL takes its own arguments up to "--"; asking for help must not need a working EAL.
  char** separator =
      std::find_if(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
  const bool no_eal_options = separator == argv + argc;
  std::vector<std::string> own(no_eal_options ? argv + 1 : separator + 1, argv + argc);
  std::reverse(own.begin(), own.end());
  try {
    app.parse(own);
    require("--seconds", options.seconds, seconds_range);
    require("--rate", options.rate, rate_range);
    if (options.clients_port == options.servers_port)
      throw CLI::ValidationError("--clients-port", "clients and servers need a port each");
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "weir-traffic: %s\nRun 'weir-traffic --help' for the options.\n", error.what());
    return exit_usage;
  }

  const int eal_arguments = no_eal_options ? 1 : static_cast<int>(separator - argv);
  if (rte_eal_init(eal_arguments, argv) < 0) {
    std::fprintf(stderr, "weir-traffic: EAL would not start; its message stands above\n");
    return exit_failure;
  }
  std::signal(SIGINT, [](int) { interrupted = true; });
  std::signal(SIGTERM, [](int) { interrupted = true; });
  const int status = play_on(options);
  rte_eal_cleanup();
  return status;
}
