// SPDX-License-Identifier: BSD-3-Clause
#include "engine/name_pool.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weir {

// A block begins with its text's length; a free one with the next free one of its size.
std::size_t NamePool::size_for(std::size_t text) noexcept {
  const std::size_t units = (sizeof(std::uint16_t) + text + unit - 1) / unit;
  return static_cast<std::size_t>(std::bit_width(units - 1));
}

NamePool::Name NamePool::add(std::string_view text) {
  text = text.substr(0, longest);
  const std::size_t size = size_for(text.size());
  Name name = free_[size];
  if (name != none) {
    std::memcpy(&free_[size], at(name), sizeof name);
  } else {
    const std::size_t units = std::size_t{1} << size;
    if (used_ + units > units_of_chunk) {
      chunks_.emplace_back(units_of_chunk * unit);
      used_ = 0;
    }
    name = static_cast<Name>((chunks_.size() - 1) * units_of_chunk + used_);
    used_ += units;
  }
  const auto length = static_cast<std::uint16_t>(text.size());
  std::memcpy(at(name), &length, sizeof length);
  if (!text.empty()) std::memcpy(at(name) + sizeof length, text.data(), text.size());
  return name;
}

void NamePool::remove(Name name) noexcept {
  const std::size_t size = size_for(text(name).size());
  std::memcpy(at(name), &free_[size], sizeof name);
  free_[size] = name;
}

std::string_view NamePool::text(Name name) const noexcept {
  std::uint16_t length;
  std::memcpy(&length, at(name), sizeof length);
  return {reinterpret_cast<const char*>(at(name)) + sizeof length, length};
}

}  // namespace weir
