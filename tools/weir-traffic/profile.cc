// SPDX-License-Identifier: BSD-3-Clause
#include "profile.h"

#include <cmath>

namespace weir::traffic {
namespace {

// Networks for documentation (RFC 5737) and for benchmarks (RFC 2544): nobody's.
constexpr std::uint32_t network(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}

std::string spell(const std::string& pattern, Dice& dice) {
  std::string text;
  for (const char character : pattern) {
    if (character == '#')
      text += std::to_string(1 + dice.below(5000));
    else if (character == '@')
      text += static_cast<char>('a' + dice.below(8));
    else
      text += character;
  }
  return text;
}

}  // namespace

double Dice::next_arrival(double rate) {
  const double unit = static_cast<double>(engine_() >> 11) * 0x1p-53;
  return -std::log1p(-unit) / rate;
}

std::vector<Crowd> default_cast() {
  const std::string form = "user=alice&password=guess#";
  return {
      {"login", "noisy", Speech::http, "POST", "/login", "", form, network(198, 51, 100, 66), 1, 120, 1},
      {"login", "calm", Speech::http, "POST", "/login", "", form, network(198, 18, 0, 1), 40, 20, 1},
      {"api", "greedy key", Speech::http, "GET", "/api/users/#", "X-API-Key: key-greedy\r\n", "",
       network(203, 0, 113, 20), 4, 80, 3},
      {"api", "other keys", Speech::http, "GET", "/api/users/#", "X-API-Key: key-@\r\n", "",
       network(198, 18, 4, 1), 60, 40, 3},
      {"search", "everybody", Speech::http, "GET", "/search?q=word#", "", "", network(198, 18, 8, 1), 250,
       150, 1},
      {"static", "everybody", Speech::http, "GET", "/static/app-#.js", "", "", network(198, 18, 12, 1), 250,
       300, 1},
      {"health", "monitor", Speech::http, "GET", "/health", "", "", network(192, 0, 2, 9), 1, 5, 1},
      {"-", "TLS", Speech::tls, "", "", "", "", network(198, 18, 16, 1), 30, 20, 1},
      {"-", "UDP", Speech::datagrams, "", "", "", "", network(198, 18, 20, 1), 30, 40, 1},
      {"-", "ping", Speech::echo, "", "", "", "", network(198, 18, 24, 1), 4, 10, 1},
      {"-", "ARP", Speech::arp, "", "", "", "", network(198, 18, 28, 1), 1, 2, 1},
  };
}

std::string make_request(const Crowd& crowd, Dice& dice) {
  const std::string body = spell(crowd.body, dice);
  std::string text = crowd.method + " " + spell(crowd.path, dice) + " HTTP/1.1\r\n";
  text += "Host: shop.example\r\nUser-Agent: weir-traffic\r\nAccept: */*\r\n";
  text += spell(crowd.headers, dice);
  if (!body.empty())
    text +=
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n";
  return text + "\r\n" + body;
}

std::string address_text(std::uint32_t address) {
  return std::to_string(address >> 24) + "." + std::to_string(address >> 16 & 255) + "." +
         std::to_string(address >> 8 & 255) + "." + std::to_string(address & 255);
}

}  // namespace weir::traffic
