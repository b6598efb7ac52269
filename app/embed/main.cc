// SPDX-License-Identifier: BSD-3-Clause
// weir in a program of your own: plain C++ threads as workers, no EAL, no packets. Each thread plays a gateway's event
// loop: take requests as they come, ask, serve or refuse. Usage: weir-embed [CONFIG.toml]
#include <weir/throttle.h>

#include <array>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr std::string_view default_config = R"(
[[rule]]
name = "per-user"
match = { method = "GET", path = "/api/**" }
key = ["header:x-api-key"]
limit = 100
interval = "1s"
cooldown = "300ms"

[[rule]]
name = "everybody"
limit = 1000
interval = "1s"
)";

struct Served {
  unsigned admitted = 0;
  unsigned refused = 0;
};

// A greedy user sends every second request; the others share the rest.
void serve(weir::Worker& worker, std::chrono::steady_clock::time_point until, Served& served) {
  const std::array<std::string, 5> users = {"greedy", "ann", "bob", "cho", "dee"};
  worker.online();
  for (unsigned i = 0; std::chrono::steady_clock::now() < until; ++i) {
    const weir::Header api_key{"x-api-key", users[i % 2 == 0 ? 0 : 1 + i / 2 % 4]};
    weir::Request request;
    request.method = "GET";
    request.target = "/api/items";
    request.host = "example.com";
    request.headers = std::span(&api_key, 1);

    const weir::Decision decision = worker.admit(request, weir::monotonic_now());
    decision.verdict == weir::Verdict::admit ? ++served.admitted : ++served.refused;
    worker.quiescent();

    worker.offline();  // before anything that sleeps or blocks
    std::this_thread::sleep_for(1ms);
    worker.online();
  }
  worker.offline();
}

}  // namespace

int main(int argc, char** argv) {
  const weir::ConfigResult config =
      argc > 1 ? weir::load_config(argv[1]) : weir::parse_config(default_config, "built-in");
  for (const weir::ConfigError& error : config.errors) std::fprintf(stderr, "%s\n", error.to_string().c_str());
  if (!config) return 2;

  constexpr unsigned workers = 2;
  weir::ThrottleOptions options;
  options.workers = workers;
  options.log = [](std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  };
  const weir::ThrottleResult made = weir::Throttle::create(config.config, options);
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error.c_str());
    return 2;
  }

  made.throttle->start();
  std::array<Served, workers> served;
  std::vector<std::thread> threads;
  const auto until = std::chrono::steady_clock::now() + 2s;
  for (unsigned i = 0; i < workers; ++i)
    threads.emplace_back([&, i] { serve(made.throttle->worker(i), until, served[i]); });
  for (std::thread& thread : threads) thread.join();
  const bool synchronised = made.throttle->stop(1s);

  for (const Served& one : served) std::printf("worker: admitted %u, refused %u\n", one.admitted, one.refused);
  for (const weir::KeyFigures& key : made.throttle->top(10))
    std::printf("%-20s offered %llu, admitted %llu in the last interval%s\n", key.name.c_str(),
                static_cast<unsigned long long>(key.offered), static_cast<unsigned long long>(key.admitted),
                key.blocked ? ", blocked" : "");
  return synchronised ? 0 : 1;
}
