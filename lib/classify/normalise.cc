// SPDX-License-Identifier: BSD-3-Clause
#include "classify/normalise.h"

#include <algorithm>
#include <cstddef>

namespace weir {
namespace {

bool is_alpha(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_scheme_character(char c) noexcept {
  return is_alpha(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Writes a path segment by segment, resolving on the way. Segments behind the buffer's end are only counted,
/// so that
/// ".." can take them back: the result is the first bytes of the resolved path.
class PathWriter {
 public:
  explicit PathWriter(std::span<char> buffer) noexcept : buffer_(buffer) { buffer_[0] = '/'; }

  void put(char c) noexcept {
    if (c == '/') {
      end_segment(true);
      return;
    }
    only_dots_ = only_dots_ && c == '.';
    ++length_;
    write(c);
  }

  std::string_view finish() noexcept {
    end_segment(false);
    return {buffer_.data(), size_};
  }

 private:
  bool write(char c) noexcept {
    cut_ = cut_ || size_ == buffer_.size();
    if (!cut_) buffer_[size_++] = c;
    return !cut_;
  }

  void end_segment(bool slash) noexcept {
    if (only_dots_ && (length_ == 1 || length_ == 2)) {
      if (closed_beyond_ == 0) rewind(begin_);
      if (length_ == 2) drop_previous();
    } else if (slash && length_ != 0) {
      if (write('/')) {
        begin_ = size_;
      } else {
        ++closed_beyond_;
      }
    }
    length_ = 0;
    only_dots_ = true;
  }

  void drop_previous() noexcept {
    if (closed_beyond_ != 0) {
      if (--closed_beyond_ == 0) rewind(begin_);
      return;
    }
    if (size_ == 1) return;
    std::size_t at = size_ - 1;
    while (buffer_[at - 1] != '/') --at;
    rewind(at);
  }

  void rewind(std::size_t to) noexcept {
    size_ = begin_ = to;
    cut_ = false;
  }

  std::span<char> buffer_;
  std::size_t size_ = 1;
  std::size_t begin_ = 1;          ///< of the first segment that does not lie in the buffer with its slash
  std::size_t closed_beyond_ = 0;  ///< segments from that one on, without the one being read
  std::size_t length_ = 0;         ///< of the segment being read, cut or not
  bool only_dots_ = true;          ///< the segment being read, so far
  bool cut_ = false;               ///< something did not fit; nothing is written until ".." has made room
};

std::string_view rewritten(std::string_view target, std::span<char> buffer) noexcept {
  PathWriter out(buffer);
  for (std::size_t i = 0; i < target.size(); ++i) {
    char c = target[i];
    if (c == '%' && target.size() - i > 2) {
      const int high = hex_digit(target[i + 1]);
      const int low = hex_digit(target[i + 2]);
      if (high >= 0 && low >= 0) {
        c = static_cast<char>(high << 4 | low);
        i += 2;
      }
    }
    out.put(c);
  }
  return out.finish();
}

std::string_view last_bytes(std::string_view text, std::size_t most) noexcept {
  return text.substr(text.size() - std::min(text.size(), most));
}

}  // namespace

AbsoluteTarget split_absolute(std::string_view target) noexcept {
  if (target.empty() || !is_alpha(target.front())) return {};
  std::size_t at = 1;
  while (at < target.size() && is_scheme_character(target[at])) ++at;
  if (target.substr(at, 3) != "://") return {};
  target.remove_prefix(at + 3);
  const std::size_t end = std::min(target.find_first_of("/?#"), target.size());
  return {target.substr(0, end), target.substr(end)};
}

std::string_view normalise_path(std::string_view target, std::span<char> buffer,
                                const Scans& scans) noexcept {
  return normal_path(target, buffer, scans).text;
}

NormalPath normal_path(std::string_view target, std::span<char> buffer, const Scans& scans) noexcept {
  if (!target.starts_with('/')) {
    if (target.empty() || target == "*") return {target, 0};
    // With the authority left out, too: Apache and what is written for Node.js see the path behind it.
    if (const AbsoluteTarget absolute = split_absolute(target);
        !absolute.authority.empty() || !absolute.rest.empty())
      target = absolute.rest;
  }
  const PathShape shape = scans.path_shape(target.data(), target.size());
  target = target.substr(0, shape.length);
  if (shape.normal)
    return {target.substr(0, buffer.size()),
            target.size() <= std::min<std::size_t>(buffer.size(), 64) ? shape.slashes : 0};
  return {rewritten(target, buffer), 0};
}

std::string_view normalise_host(std::string_view host, std::span<char> buffer, const Scans& scans) noexcept {
  if (const HostShape shape = scans.host_shape(host.data(), host.size()); shape.plain) {
    host = host.substr(0, shape.length);
    if (host.ends_with('.')) host.remove_suffix(1);
    return last_bytes(host, buffer.size());
  }
  if (host.starts_with('[')) {
    const std::size_t close = host.find(']');
    host = host.substr(0, close == std::string_view::npos ? close : close + 1);
  } else {
    host = host.substr(0, host.find(':'));
    if (host.ends_with('.')) host.remove_suffix(1);
  }
  host = last_bytes(host, buffer.size());
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (std::none_of(host.begin(), host.end(), is_upper)) return host;
  std::transform(host.begin(), host.end(), buffer.begin(),
                 [&](char c) { return is_upper(c) ? static_cast<char>(c + ('a' - 'A')) : c; });
  return {buffer.data(), host.size()};
}

}  // namespace weir
