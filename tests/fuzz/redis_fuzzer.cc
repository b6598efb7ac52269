// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a store's address, and as what a server that is no Redis, or a broken one, answers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "store/redis/batch_command.h"
#include "store/redis/redis_reply.h"
#include "store/redis/redis_topology.h"
#include "store/redis/redis_url.h"

namespace {

using namespace weir;

void check_url(std::string_view text) {
  const RedisUrlResult result = parse_redis_url(text);
  require(static_cast<bool>(result) == result.error.empty());
  if (!result) return;
  require((result.url.mode == RedisUrl::Mode::memory) == result.url.endpoints.empty());
  const std::string description = result.url.describe();
  for (const char c : description) require(c > ' ' && c < 0x7f);
  require(result.url.password.size() < 4 ||
          description.find(':' + result.url.password + '@') == std::string::npos);
}

void check_reply(const RedisReply& reply) {
  static const RedisEndpoint asked{.host = "10.0.0.9", .port = 7009};
  static const std::string instance(instance_length, 'b');
  for (const StoreLayout layout : {StoreLayout::hash, StoreLayout::plain}) {
    const BatchCommand command(layout, "weir", instance);
    for (const std::size_t entries : {1u, 3u}) {
      const auto outcomes = command.outcomes(reply, entries);
      require(!outcomes || outcomes->size() == entries);
    }
  }
  if (const auto ranges = parse_cluster_slots(reply, asked))
    for (const SlotRange& range : *ranges)
      require(range.first <= range.last && range.last < cluster_slots && range.master.port != 0);
  if (const auto redirection = parse_redirection(reply, asked)) require(!redirection->to.host.empty());
  if (const auto master = parse_master_address(reply)) require(!master->host.empty() && master->port != 0);
  if (const auto time = parse_time(reply)) require(time->count() >= 0);
  is_master(reply);
}

/// In pieces of one to sixteen bytes, as a network may deliver it.
void check_stream(std::string_view bytes) {
  RedisReplyReader reader;
  std::size_t piece = 1;
  while (!bytes.empty() && reader.feed(bytes.substr(0, piece))) {
    bytes.remove_prefix(std::min(piece, bytes.size()));
    piece = piece % 16 + 1;
    while (const auto reply = reader.next()) {
      require(reply->elements.size() <= RedisReplyReader::max_elements);
      check_reply(*reply);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_url(text);
  check_stream(text);
  // As the one string that a batch's script answers with.
  RedisReply packed;
  packed.type = RedisReply::Type::string;
  packed.text = text;
  check_reply(packed);
  return 0;
}
