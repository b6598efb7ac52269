// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A server that speaks Redis' protocol and answers what the test says.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace weir {

class ScriptedServer {
 public:
  using Words = std::vector<std::string>;
  /// What a command is answered, in the protocol's form; empty: nothing. Called by the thread that serves the
  /// connection, which takes as long as that does.
  using Script = std::function<std::string(const Words&)>;

  /// Listens on a loopback port.
  explicit ScriptedServer(Script script);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::uint16_t port() const { return port_; }

  /// A string, and an array, as they are answered.
  static std::string bulk(std::string_view text);
  static std::string array(const std::vector<std::string>& elements);

 private:
  void accept_all();
  void serve(int client);

  Script script_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> serving_;  // the accepting thread's own
  std::thread accepting_;
};

}  // namespace weir
