// SPDX-License-Identifier: BSD-3-Clause
#include "wire.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace weir::bench {
namespace {

constexpr std::size_t piece = std::size_t{256} << 10;

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int open_socket(const RedisUrl& url) {
  const RedisEndpoint& endpoint = url.endpoints.front();
  if (endpoint.host.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (endpoint.path.size() >= sizeof address.sun_path)
      throw std::runtime_error(endpoint.path + " is too long");
    std::memcpy(address.sun_path, endpoint.path.data(), endpoint.path.size());
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      fail(url.describe());
    return descriptor;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  if (getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found) != 0)
    throw std::runtime_error(url.describe() + ": no such host");
  const int descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int result = connect(descriptor, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  if (result != 0) fail(url.describe());
  return descriptor;
}

std::int64_t to_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : 0;
}

void append_header(std::string& output, char mark, std::size_t value) {
  std::array<char, 24> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  output += mark;
  output.append(text.data(), end);
  output += "\r\n";
}

}  // namespace

void append_head(std::string& output, std::size_t words) { append_header(output, '*', words); }

void append_word(std::string& output, std::string_view word) {
  append_header(output, '$', word.size());
  output += word;
  output += "\r\n";
}

void append_word(std::string& output, std::int64_t number) {
  std::array<char, 24> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  append_word(output, std::string_view(text.data(), static_cast<std::size_t>(end - text.data())));
}

void append_command(std::string& output, std::initializer_list<std::string_view> words) {
  append_head(output, words.size());
  for (const std::string_view word : words) append_word(output, word);
}

Wire::Wire(const RedisUrl& url) : descriptor_(open_socket(url)), incoming_(piece) {}

Wire::~Wire() { close(descriptor_); }

void Wire::send(std::string_view bytes) {
  sent_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t size = write(descriptor_, bytes.data(), bytes.size());
    if (size < 0) fail("write to the server");
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
}

void Wire::fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const ssize_t size = ::read(descriptor_, incoming_.data(), incoming_.size());
  if (size < 0) fail("read from the server");
  if (size == 0) throw std::runtime_error("the server has closed the connection");
  buffer_.append(incoming_.data(), static_cast<std::size_t>(size));
  received_ += static_cast<std::uint64_t>(size);
}

void Wire::receive() {
  fill();
  count();
}

void Wire::finish_reply() noexcept {
  while (!open_.empty()) {
    if (--open_.back() > 0) return;
    open_.pop_back();
  }
  ++answered_.replies;
}

void Wire::count() {
  for (;;) {
    const std::size_t end = buffer_.find("\r\n", at_);
    if (end == std::string::npos) return;
    const std::string_view line = std::string_view(buffer_).substr(at_ + 1, end - at_ - 1);
    const std::size_t next = end + 2;
    switch (buffer_[at_]) {
      case ':':
        answered_.sum += to_number(line);
        break;
      case '*':
        if (const std::int64_t elements = to_number(line); elements > 0) {
          open_.push_back(elements);
          at_ = next;
          continue;
        }
        break;
      case '$':
        if (const std::int64_t size = to_number(line); size >= 0) {
          const auto length = static_cast<std::size_t>(size);
          if (buffer_.size() - next < length + 2) return;
          answered_.sum += to_number(std::string_view(buffer_).substr(next, length));
          at_ = next + length + 2;
          finish_reply();
          continue;
        }
        break;
      case '-':
        ++answered_.errors;
        answered_.error = line;
        break;
      default:
        break;
    }
    at_ = next;
    finish_reply();
  }
}

std::string Wire::ask(std::initializer_list<std::string_view> words) {
  std::string command;
  append_command(command, words);
  send(command);
  reset();
  std::string reply;
  while (answered_.replies == 0) {
    const std::size_t had = buffer_.size() - at_;
    fill();
    reply.append(buffer_, had);
    count();
  }
  if (answered_.errors != 0) throw std::runtime_error(std::string(*words.begin()) + ": " + answered_.error);
  return reply;
}

}  // namespace weir::bench
