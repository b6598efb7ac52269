// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Stands between the store and a real redis-server, and does to the conversation what networks and broken
/// servers do.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weir {

/// What happens to one connection.
struct Fault {
  enum class Kind : std::uint8_t {
    none,          ///< forwards both ways
    close,         ///< closes at once
    reset,         ///< resets at once
    hang,          ///< takes everything and answers nothing
    say,           ///< answers `text` to the first bytes, then takes everything
    drip,          ///< answers `text`, over and over, a byte every few milliseconds
    cut_answer,    ///< forwards `bytes` of the answers, then closes; all requests arrive
    stall_answer,  ///< forwards `bytes` of the answers, then none; all requests arrive
    cut_request,   ///< forwards `bytes` of the requests, then closes
    replace,       ///< forwards `bytes` of the answers, then answers `text` in place of the rest
  };
  Kind kind = Kind::none;
  std::size_t bytes = 0;
  std::string text = {};
  std::size_t answers = 0;  ///< that are forwarded whole before `bytes` of the answers begin to count
};

class FaultyProxy {
 public:
  /// Listens on a loopback port; forwards to a unix socket.
  explicit FaultyProxy(std::string server_socket);
  ~FaultyProxy();
  FaultyProxy(const FaultyProxy&) = delete;
  FaultyProxy& operator=(const FaultyProxy&) = delete;

  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

  /// What happens to each further connection; called by the proxy's thread, with the connection's number.
  void on_connection(std::function<Fault(std::size_t)> decide);
  void set(const Fault& fault) {
    on_connection([fault](std::size_t) { return fault; });
  }
  std::size_t connections() const { return connections_.load(); }

 private:
  void accept_all();
  void serve(int client, const Fault& fault);

  std::string server_socket_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> connections_{0};
  std::mutex mutex_;
  std::function<Fault(std::size_t)> decide_;
  std::vector<std::thread> serving_;  // the accepting thread's own
  std::thread accepting_;
};

}  // namespace weir
