// SPDX-License-Identifier: BSD-3-Clause
#include "filter/refusal_text.h"

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

namespace weir::filter {
namespace {

/// A number's decimal digits.
class Digits {
 public:
  explicit Digits(std::uint64_t number) noexcept
      : end_(std::to_chars(digits_.data(), digits_.data() + digits_.size(), number).ptr) {}
  std::string_view text() const noexcept { return {digits_.data(), end_}; }

 private:
  std::array<char, 20> digits_;  // of the largest there is
  const char* end_;
};

}  // namespace

std::uint64_t whole_seconds(Duration duration) noexcept {
  constexpr std::int64_t second = std::chrono::nanoseconds{std::chrono::seconds{1}}.count();
  if (duration.count() <= second) return 1;
  return static_cast<std::uint64_t>((duration.count() - 1) / second + 1);
}

RefusalText::RefusalText(const Rule& rule)
    : name_("\"" + rule.name + "\""),
      limit_(std::to_string(rule.limit)),
      window_(std::to_string(whole_seconds(rule.interval))) {
  // So that there is room for any.
  compose(std::numeric_limits<std::uint64_t>::max(), false);
}

void RefusalText::compose(std::uint64_t retry_after_seconds, bool head) {
  constexpr std::string_view body_begins = "Too many requests: the limit of rule ";
  constexpr std::string_view body_goes_on = " is reached. Try again in ";
  constexpr std::string_view body_ends = " s.\n";
  const Digits digits(retry_after_seconds);
  const std::string_view seconds = digits.text();
  const Digits body_length(body_begins.size() + name_.size() + body_goes_on.size() + seconds.size() +
                           body_ends.size());
  text_.clear();
  const auto append = [this](const auto&... pieces) { (text_.append(pieces), ...); };
  append("HTTP/1.1 429 Too Many Requests\r\nRetry-After: ", seconds);
  append("\r\nRateLimit-Policy: ", name_, ";q=", limit_, ";w=", window_);
  append("\r\nRateLimit: ", name_, ";r=0;t=", seconds);
  append("\r\nRateLimit-Limit: ", limit_, "\r\nRateLimit-Remaining: 0\r\nRateLimit-Reset: ", seconds);
  append("\r\nContent-Type: text/plain\r\nContent-Length: ", body_length.text());
  append("\r\nConnection: close\r\n\r\n");
  if (!head) append(body_begins, name_, body_goes_on, seconds, body_ends);
  sum_ = ChecksumSum(std::as_bytes(std::span(text_)));
  seconds_ = retry_after_seconds;
  head_ = head;
}

RefusalText::Written RefusalText::write(std::uint64_t retry_after_seconds, bool head,
                                        std::span<std::byte> out) noexcept {
  if (retry_after_seconds != seconds_ || head != head_) [[unlikely]]
    compose(retry_after_seconds, head);
  if (text_.size() > out.size()) return {};
  std::memcpy(out.data(), text_.data(), text_.size());
  return {text_.size(), sum_};
}

}  // namespace weir::filter
