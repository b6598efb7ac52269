// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_reply.h"

#include <new>
#include <utility>

namespace weir {
namespace {

/// The place of a task's reply: a new root, or the element of its array.
RedisReply* place(const redisReadTask* task) noexcept {
  if (task->parent == nullptr) return new (std::nothrow) RedisReply;
  auto* array = static_cast<RedisReply*>(task->parent->obj);
  const auto index = static_cast<std::size_t>(task->idx);
  return index < array->elements.size() ? &array->elements[index] : nullptr;
}

/// Gives a reply up that could not be filled; an element goes with its array.
void* abandon(const redisReadTask* task, RedisReply* reply) noexcept {
  if (task->parent == nullptr) delete reply;
  return nullptr;
}

void* create_string(const redisReadTask* task, char* text, std::size_t length) noexcept {
  RedisReply* reply = place(task);
  if (reply == nullptr) return nullptr;
  switch (task->type) {
    case REDIS_REPLY_STATUS:
      reply->type = RedisReply::Type::status;
      break;
    case REDIS_REPLY_ERROR:
      reply->type = RedisReply::Type::error;
      break;
    case REDIS_REPLY_STRING:
      reply->type = RedisReply::Type::string;
      break;
    default:
      return abandon(task, reply);
  }
  try {
    reply->text.assign(text, length);
  } catch (const std::bad_alloc&) {
    return abandon(task, reply);
  }
  return reply;
}

/// hiredis 0.14 has this bound by itself; 1.x would follow a server however deep, and who then gives the
/// reply up goes as deep on the stack.
bool lies_too_deep(const redisReadTask* task) noexcept {
  std::size_t depth = 1;
  for (; task->parent != nullptr; task = task->parent) ++depth;
  return depth > RedisReplyReader::max_depth;
}

/// `Count` is int in hiredis 0.14 and size_t in 1.x.
template <typename Count>
void* create_array(const redisReadTask* task, Count elements) noexcept {
  if (task->type != REDIS_REPLY_ARRAY || lies_too_deep(task)) return nullptr;
  auto& total = *static_cast<std::size_t*>(task->privdata);
  if (std::cmp_less(elements, 0) || std::cmp_greater(elements, RedisReplyReader::max_elements - total))
    return nullptr;
  total += static_cast<std::size_t>(elements);
  RedisReply* reply = place(task);
  if (reply == nullptr) return nullptr;
  reply->type = RedisReply::Type::array;
  try {
    reply->elements.resize(static_cast<std::size_t>(elements));
  } catch (const std::bad_alloc&) {
    return abandon(task, reply);
  }
  return reply;
}

void* create_integer(const redisReadTask* task, long long value) noexcept {
  RedisReply* reply = place(task);
  if (reply == nullptr) return nullptr;
  reply->type = RedisReply::Type::integer;
  reply->integer = value;
  return reply;
}

/// As a string or an array that is not there. The third protocol has others.
void* create_nil(const redisReadTask* task) noexcept {
  if (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_ARRAY) return nullptr;
  return place(task);
}

/// hiredis 1.x puts the number of the kind in the place of a reply of which nobody wants to hear: a pointer
/// to nowhere. 0.14 does not know these kinds.
template <typename Functions>
void refuse_third_protocol(Functions& functions) noexcept {
  if constexpr (requires { functions.createDouble; })
    functions.createDouble = [](const redisReadTask*, double, char*, std::size_t) noexcept -> void* {
      return nullptr;
    };
  if constexpr (requires { functions.createBool; })
    functions.createBool = [](const redisReadTask*, int) noexcept -> void* { return nullptr; };
}

void free_object(void* reply) noexcept { delete static_cast<RedisReply*>(reply); }

redisReplyObjectFunctions make_functions() {
  redisReplyObjectFunctions functions{};
  functions.createString = create_string;
  functions.createArray = create_array;
  functions.createInteger = create_integer;
  functions.createNil = create_nil;
  functions.freeObject = free_object;
  refuse_third_protocol(functions);
  return functions;
}

}  // namespace

bool RedisReply::is_error(std::string_view code) const noexcept {
  return is_error() && text.starts_with(code) && (text.size() == code.size() || text[code.size()] == ' ');
}

RedisReplyReader::RedisReplyReader() {
  // The reader keeps the pointer and never writes through it.
  static redisReplyObjectFunctions functions = make_functions();
  reader_.reset(redisReaderCreateWithFunctions(&functions));
  if (reader_ == nullptr) throw std::bad_alloc();
  reader_->privdata = &elements_;
}

bool RedisReplyReader::feed(std::string_view bytes) {
  if (failed_) return false;
  if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK ||
      reader_->len - reader_->pos > max_bytes)
    failed_ = true;
  return !failed_;
}

std::optional<RedisReply> RedisReplyReader::next() {
  if (failed_) return std::nullopt;
  void* object = nullptr;
  if (redisReaderGetReply(reader_.get(), &object) != REDIS_OK) {
    failed_ = true;
    return std::nullopt;
  }
  if (object == nullptr) return std::nullopt;
  elements_ = 0;
  const std::unique_ptr<RedisReply> reply(static_cast<RedisReply*>(object));
  return std::move(*reply);
}

}  // namespace weir
