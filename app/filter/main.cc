// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// weir-filter: the order of things. Configuration first, so that its mistakes are told before any device is
/// touched; then DPDK, ports, throttle, workers; and the same backwards.
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "filter/affinity.h"
#include "filter/burst_filter.h"
#include "filter/counters.h"
#include "filter/distribute.h"
#include "filter/options.h"
#include "filter/output.h"
#include "filter/ports.h"
#include "filter/queue_plan.h"
#include "filter/reporter.h"
#include "filter/rule_reach.h"
#include "filter/signals.h"
#include "filter/statistics.h"
#include "filter/worker_loop.h"
#include "weir/throttle.h"

namespace weir::filter {
namespace {

constexpr Duration last_sync_patience = std::chrono::seconds{2};

/// DPDK's environment, while it lasts.
class Eal {
 public:
  explicit Eal(std::vector<std::string> arguments) {
    // 22.11 logs to stdout, where the statistics belong.
    rte_openlog_stream(stderr);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    up_ = rte_eal_init(static_cast<int>(arguments.size()), pointers.data()) >= 0;
  }
  ~Eal() {
    if (up_) rte_eal_cleanup();
  }
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;
  bool up() const noexcept { return up_; }

 private:
  bool up_ = false;
};

using Task = std::function<void()>;

int run_task(void* task) {
  (*static_cast<Task*>(task))();
  return 0;
}

std::vector<unsigned> worker_lcores() {
  std::vector<unsigned> lcores;
  unsigned lcore = 0;
  RTE_LCORE_FOREACH_WORKER(lcore) lcores.push_back(lcore);
  return lcores;
}

/// What `run` throws, if it throws.
std::exception_ptr caught(auto&& run) noexcept {
  try {
    run();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

/// Runs statistics and the polling threads until it is time to stop; afterwards all workers are offline.
/// Throws what ends them before, once they have stopped.
void run_threads(Throttle& throttle, Reporter& reporter, std::vector<Task>& tasks,
                 const std::vector<unsigned>& lcores, const cpu_set_t& home, std::atomic<bool>& stop) {
  std::exception_ptr failure;
  const auto report = [&] {
    failure = caught([&] { reporter.run(); });
    stop.store(true, std::memory_order_relaxed);
  };
  if (lcores.empty()) {
    bool running = false;
    std::latch decided{1};
    std::thread control([&] {
      keep_off(home, own_cpus());
      failure = caught([&] { throttle.start(); });
      running = failure == nullptr;
      decided.count_down();
      if (running) report();
    });
    decided.wait();  // a worker needs the first publication
    if (running) tasks.front()();
    control.join();
    // For this thread, too, which now waits for the store.
    release_stop_signals();
  } else {
    throttle.start();
    for (std::size_t i = 0; i < tasks.size(); ++i) rte_eal_remote_launch(run_task, &tasks[i], lcores[i]);
    report();
    for (std::size_t i = 0; i < tasks.size(); ++i) rte_eal_wait_lcore(lcores[i]);
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

int filter(const Options& options, const Config& config) {
  hold_stop_signals();
  const cpu_set_t home = own_cpus();
  const Eal eal(options.eal);
  if (!eal.up()) {
    // It often fails without a number that would say why.
    const std::string reason = rte_errno == 0 ? "" : std::string(" (") + rte_strerror(rte_errno) + ")";
    complain(
        "DPDK does not start" + reason +
        "; its own messages say why. Without hugepages: --no-huge -m 256. Beside another process that uses "
        "DPDK: --in-memory, or a --file-prefix of its own");
    return exit_failure;
  }

  const PairsResult chosen = choose_pairs(config.ports.pairs, available_ports());
  if (!chosen.error.empty()) {
    complain(chosen.error);
    return exit_failure;
  }
  const std::vector<unsigned> lcores = worker_lcores();
  // Without any the main lcore does it all.
  const unsigned polling = std::max(1U, static_cast<unsigned>(lcores.size()));
  const QueuePlan plan = plan_queues(chosen.pairs, queues_of(chosen.pairs), polling, config.ports.queues);

  std::optional<Aside> aside;
  // This thread is the worker: the store's thread, which starts here, belongs beside it.
  if (lcores.empty()) aside.emplace(home);
  const ThrottleResult made = Throttle::create(
      config,
      {.workers = plan.workers, .hash_seed = {}, .log = [](std::string_view line) { complain(line); }});
  aside.reset();
  if (!made) {
    complain(made.error);
    return exit_failure;
  }
  Throttle& throttle = *made.throttle;

  std::string error;
  const std::unique_ptr<Ports> ports = Ports::start(chosen.pairs, plan, config.ports, error);
  const std::unique_ptr<Distributor> distributor =
      ports != nullptr && plan.distribute ? Distributor::create(plan.workers, error) : nullptr;
  if (!error.empty()) {
    complain(error);
    return exit_failure;
  }
  for (const std::string& warning : ports->warnings()) complain(warning);
  complain(plan_text(chosen.pairs, plan, lcores, config.rules.size()));
  for (const PortState& port : ports->at_start())
    complain(port_text(port.port, port.name) + ": " + link_text(port) + "; MTU " + std::to_string(port.mtu));

  std::atomic<bool> stop{false};
  std::vector<Counters> counters(plan.lcores());
  std::random_device random;
  std::vector<std::unique_ptr<BurstFilter>> filters;
  std::vector<Task> tasks;
  const Duration idle_sleep = config.node.idle_sleep;
  if (plan.distribute)
    tasks.emplace_back([&] { distributor->run_io(plan.polled.front(), counters.back(), idle_sleep, stop); });
  for (unsigned i = 0; i < plan.workers; ++i) {
    const std::uint64_t seed = (std::uint64_t{random()} << 32) | random();
    filters.push_back(
        std::make_unique<BurstFilter>(throttle, throttle.worker(i), ports->wiring(), counters[i], seed));
    const WorkerSeat seat{.worker = throttle.worker(i),
                          .filter = *filters.back(),
                          .counters = counters[i],
                          .sets = plan.distribute ? std::span<const QueueSet>{} : plan.polled[i],
                          .idle_sleep = idle_sleep,
                          .stop = stop};
    if (plan.distribute)
      tasks.emplace_back([&distributor, i, seat] { distributor->run_worker(i, seat); });
    else
      tasks.emplace_back([seat] { run_to_completion(seat); });
  }

  Reporter reporter(throttle, *ports, counters, options);
  run_threads(throttle, reporter, tasks, lcores, home, stop);
  if (!throttle.stop(last_sync_patience))
    complain("stopped with counts pending: the store did not take them within 2 s");
  reporter.finish();
  return exit_good;
}

int check(const Config& config) {
  // Who only asks what the file says does not want to be seen by the store that it names.
  Config alone = config;
  alone.store = StoreConfig{};
  std::array<std::size_t, 2> memory{};  // of one worker, and of two
  for (unsigned workers = 1; workers <= memory.size(); ++workers) {
    const ThrottleResult made = Throttle::create(alone, {.workers = workers, .hash_seed = {}, .log = {}});
    if (!made) {
      // Of a configuration that is good: there is no memory for what it asks.
      complain(made.error);
      return exit_failure;
    }
    memory[workers - 1] = made.throttle->memory() + workers * BurstFilter::memory(config.rules.size());
  }
  const std::string text = description(config, memory[0], memory[1] - memory[0]);
  std::fputs(text.c_str(), stdout);
  return exit_good;
}

int program(std::span<const char* const> arguments) {
  const OptionsResult read = read_options(arguments);
  std::fputs(read.output.c_str(), stdout);
  if (!read.error.empty()) std::fprintf(stderr, "weir-filter: %s", read.error.c_str());
  if (read.exit) return *read.exit;

  const ConfigResult loaded = load_config(read.options.config);
  for (const ConfigError& error : loaded.errors) std::fprintf(stderr, "%s\n", error.to_string().c_str());
  if (!loaded) return exit_usage;
  std::string wrong = Throttle::check(loaded.config);
  if (wrong.empty()) wrong = out_of_reach(loaded.config.rules);
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s: %s\n", read.options.config.c_str(), wrong.c_str());
    return exit_usage;
  }
  return read.options.check ? check(loaded.config) : filter(read.options, loaded.config);
}

}  // namespace
}  // namespace weir::filter

int main(int count, char** arguments) {
  weir::filter::open_standard_descriptors();
  try {
    return weir::filter::program({arguments, static_cast<std::size_t>(count)});
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "weir-filter: %s\n", exception.what());
    return weir::filter::exit_failure;
  }
}
