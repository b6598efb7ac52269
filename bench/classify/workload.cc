// SPDX-License-Identifier: BSD-3-Clause
#include "workload.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <string_view>

namespace weir::bench {
namespace {

constexpr std::size_t line = 64;
constexpr std::size_t headers_before_payload = 14 + 20 + 20;

using Random = std::mt19937_64;

std::string word(Random& random, std::size_t length) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string text;
  for (std::size_t i = 0; i < length; ++i) text += letters[random() % letters.size()];
  return text;
}

// Paths of several lengths and shapes, so that a branch predictor learns no more than it would from traffic.
std::string target(Random& random) {
  constexpr std::string_view roots[] = {"/api/items/", "/users/", "/v2/orders/", "/static/"};
  std::string text(roots[random() % std::size(roots)]);
  text += word(random, 3 + random() % 8);
  if (random() % 2 == 0) text += "/" + word(random, 2 + random() % 6);
  if (random() % 4 == 0) text += "?page=" + std::to_string(random() % 100);
  return text;
}

// A field that fills the head up to its length, for frames are of one size.
std::string filled(std::string head, std::size_t length, Random& random) {
  constexpr std::string_view name = "X-Fill: ";
  const std::size_t used = head.size() + name.size() + 4;
  if (used > length) std::abort();  // a mistake in this file
  return head.append(name).append(word(random, length - used)).append("\r\n\r\n");
}

std::string small_request(Random& random, std::size_t length) {
  std::string head = "GET " + target(random) + " HTTP/1.1\r\nHost: h" + std::to_string(random() % 10) +
                     ".example.com\r\nAuthorization: " + word(random, 16) +
                     "\r\nX-Api-Key: " + word(random, 8) + "\r\n";
  return filled(std::move(head), length, random);
}

std::string large_request(Random& random, std::size_t length) {
  std::string head = (random() % 4 == 0 ? "POST " : "GET ") + target(random) + " HTTP/1.1\r\n";
  head += "Host: shop" + std::to_string(random() % 10) + ".example.com\r\n";
  head += "Connection: keep-alive\r\n";
  head += "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n";
  head += "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";
  head += "Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\n";
  head += "Referer: https://shop.example.com" + target(random) + "\r\n";
  head += "X-Forwarded-For: 203.0.113." + std::to_string(random() % 256) + "\r\nX-Forwarded-Proto: https\r\n";
  head += "Cookie: session=" + word(random, 32) + "; theme=dark\r\n";
  head += "Authorization: Bearer " + word(random, 40) + "\r\n";
  head += "Cache-Control: max-age=0\r\nX-Api-Key: " + word(random, 24) + "\r\n";
  return filled(std::move(head), length, random);
}

std::string payload(Content content, Random& random) {
  switch (content) {
    case Content::get_200:
      return small_request(random, 200 - headers_before_payload);
    case Content::headers_800:
      return large_request(random, 800 - headers_before_payload);
    case Content::no_http:
      break;
  }
  std::string bytes;
  while (bytes.size() < 200 - headers_before_payload) bytes += static_cast<char>(random() | 0x80);
  return bytes;
}

std::string frame(Content content, Random& random) {
  const std::string body = payload(content, random);
  std::string bytes(headers_before_payload, '\0');
  const auto put16 = [&](std::size_t at, std::size_t value) {
    bytes[at] = static_cast<char>(value >> 8);
    bytes[at + 1] = static_cast<char>(value);
  };
  put16(12, 0x0800);
  bytes[14] = 0x45;
  put16(16, 40 + body.size());
  bytes[22] = 64;
  bytes[23] = 6;
  put16(26, 10U << 8);
  put16(28, random() & 0xffff);
  put16(30, 10U << 8 | 1);
  put16(32, 1);
  put16(34, 1024 + random() % 60000);
  put16(36, 80);
  bytes[46] = 0x50;
  bytes[47] = 0x18;
  return bytes + body;
}

}  // namespace

std::vector<Rule> rules_for(Wanted wanted) {
  using Kind = Dimension::Kind;
  Rule rule;
  rule.name = "all";
  rule.limit = 1;
  rule.interval = std::chrono::seconds{1};
  rule.key = {{Kind::method, 32, 64, {}}, {Kind::path, 32, 64, {}}};
  if (wanted != Wanted::request_line) rule.key.push_back({Kind::host, 32, 64, {}});
  if (wanted == Wanted::three_headers) {
    rule.key.push_back({Kind::header, 32, 64, "authorization"});
    rule.key.push_back({Kind::header, 32, 64, "x-api-key"});
  }
  return {rule};
}

void FramePool::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

FramePool::FramePool(Content content, std::size_t bytes) {
  Random random(42);
  length_ = frame(content, random).size();
  const std::size_t own_lines = (length_ + line - 1) / line * line;
  stride_ = own_lines + 2 * line;
  const std::size_t count = std::max<std::size_t>(bytes / own_lines, 1);
  // On huge pages, as mbufs lie: a pool on small ones would measure the address translation.
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  const std::size_t room = (count * stride_ + huge_page - 1) / huge_page * huge_page;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(huge_page, room)));
  if (memory_ == nullptr) std::abort();
  madvise(memory_.get(), room, MADV_HUGEPAGE);  // where it is refused, small pages do
  for (std::size_t i = 0; i < count; ++i) {
    const std::string one = frame(content, random);
    std::transform(one.begin(), one.end(), memory_.get() + i * stride_,
                   [](char c) { return static_cast<std::byte>(c); });
  }
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0U);
  std::shuffle(order_.begin(), order_.end(), random);
}

}  // namespace weir::bench
