// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_topology.h"

#include <array>
#include <utility>

#include "base/whole_number.h"

namespace weir {
namespace {

constexpr std::size_t max_host = 253;

constexpr std::array<std::uint16_t, 256> make_crc_table() {
  std::array<std::uint16_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}
constexpr auto crc_table = make_crc_table();

bool good_host(std::string_view host) {
  if (host.empty() || host.size() > max_host) return false;
  for (const char c : host)
    if (c <= ' ' || c > '~') return false;
  return true;
}

std::optional<RedisEndpoint> endpoint(std::string_view host, std::uint16_t port) {
  if (!good_host(host) || port == 0) return std::nullopt;
  return RedisEndpoint{.host = std::string(host), .port = port};
}

/// What a node's metadata say: "ip" and its value.
std::string_view address_in(const RedisReply& node) {
  if (node.elements.size() < 4) return {};
  const std::vector<RedisReply>& metadata = node.elements[3].elements;
  for (std::size_t i = 0; i + 1 < metadata.size(); i += 2)
    if (metadata[i].text == "ip") return metadata[i + 1].text;
  return {};
}

std::optional<std::uint32_t> slot(const RedisReply& reply) {
  if (reply.type != RedisReply::Type::integer || reply.integer < 0 || reply.integer >= cluster_slots)
    return std::nullopt;
  return static_cast<std::uint32_t>(reply.integer);
}

}  // namespace

std::uint32_t cluster_slot(std::string_view tag) noexcept {
  std::uint16_t crc = 0;
  for (const char c : tag)
    crc = static_cast<std::uint16_t>(crc << 8 ^ crc_table[(crc >> 8 ^ static_cast<unsigned char>(c)) & 0xff]);
  return crc % cluster_slots;
}

std::optional<std::vector<SlotRange>> parse_cluster_slots(const RedisReply& reply,
                                                          const RedisEndpoint& asked) {
  if (reply.type != RedisReply::Type::array) return std::nullopt;
  std::vector<SlotRange> ranges;
  for (const RedisReply& element : reply.elements) {
    if (element.type != RedisReply::Type::array || element.elements.size() < 3) return std::nullopt;
    const auto first = slot(element.elements[0]);
    const auto last = slot(element.elements[1]);
    const RedisReply& master = element.elements[2];
    if (!first || !last || *first > *last || master.type != RedisReply::Type::array ||
        master.elements.size() < 2 || master.elements[1].type != RedisReply::Type::integer)
      return std::nullopt;
    const RedisReply& host = master.elements[0];
    const std::int64_t port = master.elements[1].integer;
    if (port < 1 || port > 65535) return std::nullopt;
    // Nil or empty: "where you have reached me". "?": a node that has no name, where names are preferred.
    const std::string_view name = host.text.empty()  ? std::string_view(asked.host)
                                  : host.text == "?" ? address_in(master)
                                                     : std::string_view(host.text);
    const auto where = endpoint(name, static_cast<std::uint16_t>(port));
    if (!where) return std::nullopt;
    ranges.push_back({*first, *last, *where});
  }
  return ranges;
}

std::optional<Redirection> parse_redirection(const RedisReply& error, const RedisEndpoint& asked) {
  Redirection redirection;
  if (error.is_error("ASK"))
    redirection.kind = Redirection::Kind::ask;
  else if (!error.is_error("MOVED"))
    return std::nullopt;
  const std::string_view text = error.text;
  const std::size_t address = text.rfind(' ') + 1;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon < address) return std::nullopt;
  const auto port = whole_number<std::uint16_t>(text.substr(colon + 1));
  const std::string_view host = text.substr(address, colon - address);
  if (!port || host == "?") return std::nullopt;
  const auto where = endpoint(host.empty() ? std::string_view(asked.host) : host, *port);
  if (!where) return std::nullopt;
  redirection.to = *where;
  return redirection;
}

std::optional<RedisEndpoint> parse_master_address(const RedisReply& reply) {
  if (reply.type != RedisReply::Type::array || reply.elements.size() != 2) return std::nullopt;
  const auto port = whole_number<std::uint16_t>(reply.elements[1].text);
  return port ? endpoint(reply.elements[0].text, *port) : std::nullopt;
}

bool is_master(const RedisReply& reply) {
  return reply.type == RedisReply::Type::array && !reply.elements.empty() &&
         reply.elements[0].text == "master";
}

std::optional<std::chrono::microseconds> parse_time(const RedisReply& reply) {
  if (reply.type != RedisReply::Type::array || reply.elements.size() != 2) return std::nullopt;
  const auto seconds = whole_number<std::int64_t>(reply.elements[0].text);
  const auto microseconds = whole_number<std::int64_t>(reply.elements[1].text);
  // As nanoseconds it must still fit, with room to calculate.
  constexpr std::int64_t most_seconds = 4'000'000'000;
  if (!seconds || !microseconds || *seconds < 0 || *seconds > most_seconds || *microseconds < 0 ||
      *microseconds >= 1'000'000)
    return std::nullopt;
  return std::chrono::seconds{*seconds} + std::chrono::microseconds{*microseconds};
}

}  // namespace weir
