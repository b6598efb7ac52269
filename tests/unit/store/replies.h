// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What Redis might answer, put together by hand.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "store/redis/redis_reply.h"

namespace weir {

inline RedisReply integer(std::int64_t value) {
  RedisReply reply;
  reply.type = RedisReply::Type::integer;
  reply.integer = value;
  return reply;
}

inline RedisReply text(std::string value, RedisReply::Type type = RedisReply::Type::string) {
  RedisReply reply;
  reply.type = type;
  reply.text = std::move(value);
  return reply;
}

inline RedisReply array(std::vector<RedisReply> elements) {
  RedisReply reply;
  reply.type = RedisReply::Type::array;
  reply.elements = std::move(elements);
  return reply;
}

}  // namespace weir
