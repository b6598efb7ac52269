// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a store's address, and as what a server that is no Redis, or a broken one, answers.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/require.h"
#include "store/exchange/exchange.h"
#include "store/exchange/records.h"
#include "store/redis/batch_command.h"
#include "store/redis/exchange_command.h"
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
  // A socket's path may say by chance what the password says, so it is not looked for there.
  RedisUrl without_password = result.url;
  without_password.password.clear();
  require(without_password.describe() == description);
  const std::string path = result.url.endpoints.empty() ? "" : result.url.endpoints.front().path;
  require(result.url.password.size() < 4 || !path.empty() ||
          description.find(':' + result.url.password + '@') == std::string::npos);
}

/// The fields of one batch, and room for them.
OutboxBatch a_batch() {
  static constexpr std::string_view names = "rule|arule|b";
  static const std::vector<OutboxEntry> entries = [] {
    std::vector<OutboxEntry> both(2);
    both[0] = {.delta = 3, .name_at = 0, .name_size = 6};
    both[1] = {.delta = 0, .name_at = 6, .name_size = 6};
    return both;
  }();
  return {.group = {3, std::chrono::seconds{1}, 170, true},
          .sequence = 1,
          .time_to_live = std::chrono::seconds{10},
          .expires = MonotonicTime(std::chrono::seconds{10}),
          .entries = entries,
          .names = names};
}

/// As the script's answer, and then as whatever is asked for after it.
void check_exchange(const RedisReply& reply) {
  constexpr std::size_t room = 100;
  const auto answer = ExchangeCommand::answer(reply);
  const auto pieces = ExchangeCommand::pieces(reply);
  if (!answer && !pieces) return;
  Exchange exchange(std::string(instance_length, 'b'), "seed", 1, room);
  const OutboxBatch batch = a_batch();
  exchange.begin(batch);
  Exchange::Progress progress = Exchange::Progress::wait;
  if (answer) {
    progress = exchange.absorb(batch, *answer);
  } else {
    // In the place of an answer that tells of one log with pieces to come.
    const std::string writer(Exchange::writer_length, 'w');
    ExchangeAnswer before{.status = ExchangeAnswer::Status::applied, .seed = {}, .logs = {}};
    before.logs.push_back({writer, 1, 2, 7, 9, 100});
    progress = exchange.absorb(batch, before);
  }
  if (progress == Exchange::Progress::ask) {
    const ExchangeQuestion question = exchange.find(batch.group)->question();
    require(!question.fields.empty() && question.fields.size() <= ExchangeGroup::most_asked);
    if (pieces) progress = exchange.absorb(batch, *pieces, question.turn);
  }
  require(exchange.counters() <= room);
  if (progress != Exchange::Progress::done) return;
  const auto outcomes = exchange.find(batch.group)->outcomes();
  require(outcomes.size() == batch.entries.size() && outcomes[0].applied && outcomes[0].total >= 3);
}

/// As a piece of somebody's log.
void check_records(std::string_view bytes) {
  RecordReader reader(bytes);
  std::string again;
  std::size_t records = 0;
  for (; const auto record = reader.next(); ++records) {
    require(record->delta <= Outbox::max_delta);
    append_record(again, *record);
  }
  require(records * 9 <= bytes.size() && again.size() <= bytes.size());
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
  check_exchange(reply);
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
  // As the table of the logs, and as a piece.
  RedisReply table;
  table.type = RedisReply::Type::array;
  table.elements.resize(2);
  table.elements[0].type = RedisReply::Type::integer;
  table.elements[0].integer = 1;
  table.elements[1] = packed;
  check_reply(table);
  RedisReply pieces;
  pieces.type = RedisReply::Type::array;
  pieces.elements = {packed, packed, packed, packed};
  check_reply(pieces);
  check_records(text);
  return 0;
}
