// SPDX-License-Identifier: BSD-3-Clause
#include "base/key_hash.h"

namespace weir {
namespace {

/// Stands for bytes that no KeyBytes made.
constexpr std::uint8_t no_field = 0xff;

/// A field of a key, as its first bytes tell.
struct Head {
  std::size_t size = 0;  ///< of the head; 0: no field
  std::size_t content = 0;
  std::uint8_t second = 0;
};

Head head_of(std::span<const std::byte> bytes) noexcept {
  using namespace key_form;
  const auto tag = std::to_integer<std::uint8_t>(bytes[0]);
  const std::uint8_t second = bytes.size() > 1 ? std::to_integer<std::uint8_t>(bytes[1]) : std::uint8_t{0};
  switch (tag) {
    case absent:
      return {1, 0, 0};
    case text:
      return {2, second, second};
    case ipv4:
      return {2, 4, second};
    case ipv6:
      return {2, 16, second};
    case number:
      return {1, 2, 0};
    case digest:
      return {2, second + digest_bytes, second};
    default:
      return {};
  }
}

}  // namespace

KeyHash::KeyHash(HashKey secret) noexcept {
  std::uint64_t count = 0;
  const auto next = [&] {
    const std::uint64_t number = count++;
    // The tweak keeps these words apart from everything else that is hashed under the same secret.
    constexpr std::uint64_t key_words = 0x73'64'72'6f'77'79'65'6bULL;
    return keyed_hash(secret, key_words, std::as_bytes(std::span(&number, 1)));
  };
  for (Words::Wide* const wide : {&words_.start, &words_.of_x, &words_.of_y, &words_.of_z,
                                  &words_.of_shape_low, &words_.of_shape_high}) {
    wide->low = next();
    wide->high = next();
  }
  words_.last = next() | 1;
  for (std::size_t at = 0; at < sizeof words_.inner; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = next();
    std::memcpy(&words_.inner[at], &word, sizeof word);
  }
}

std::uint64_t KeyHash::operator()(std::uint64_t tweak, std::span<const std::byte> bytes) const noexcept {
  Fields fields(*this);
  std::size_t count = 0;
  for (std::span<const std::byte> rest = bytes; !rest.empty(); ++count) {
    const Head head = head_of(rest);
    if (count == max_dimensions || head.size == 0 || rest.size() < head.size + head.content) {
      Fields whole(*this);
      whole.add(no_field, 0, 0, bytes);
      return whole.value(tweak);
    }
    const auto tag = std::to_integer<std::uint8_t>(rest[0]);
    const std::span<const std::byte> content = rest.subspan(head.size, head.content);
    if (tag == key_form::absent)
      fields.add_absent();
    else
      fields.add(tag, head.second, head.size, content);
    rest = rest.subspan(head.size + head.content);
  }
  return fields.value(tweak);
}

}  // namespace weir
