// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Who asks for what, and how often: the play's cast.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace weir::traffic {

/// Random numbers that are the same on every machine for the same seed.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  /// 0 … bound-1. @pre bound > 0
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  /// Exponentially distributed: the time to the next of arrivals that come `rate` times a second, in seconds.
  double next_arrival(double rate);

 private:
  std::mt19937_64 engine_;  // the standard fixes its numbers, not those of its distributions
};

/// What a crowd sends.
enum class Speech : std::uint8_t {
  http,       ///< requests over TCP, answered by the server
  tls,        ///< a TCP connection that does not begin with a request
  datagrams,  ///< UDP, one answer each
  echo,       ///< ICMP echo
  arp,        ///< who-has
};

/// Clients of one kind behind a range of addresses.
struct Crowd {
  std::string route;  ///< e.g. "login"
  std::string name;   ///< e.g. "noisy"
  Speech speech = Speech::http;
  std::string method;
  std::string path;     ///< '#' stands for a random number
  std::string headers;  ///< further header lines, each with its line end; '@' stands for a letter a … h
  std::string body;
  std::uint32_t address = 0;    ///< the first one, IPv4
  std::uint32_t addresses = 1;  ///< how many
  double rate = 1;              ///< connections a second, all addresses together
  unsigned requests = 1;        ///< per connection, one after the other
};

/// The clients of a small web application: two who overdo it, and many who do not.
std::vector<Crowd> default_cast();

/// The bytes of one request of a crowd.
std::string make_request(const Crowd& crowd, Dice& dice);

/// "203.0.113.7"
std::string address_text(std::uint32_t address);

}  // namespace weir::traffic
