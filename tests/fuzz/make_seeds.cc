// SPDX-License-Identifier: BSD-3-Clause
// Writes the seed corpora of the fuzzers: make_seeds DIRECTORY
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_bytes.h"
#include "frame_builder.h"

namespace {

using weir::test::Bytes;
using weir::test::FrameBuilder;
using weir::test::HttpText;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> payloads() {
  return {
      HttpText("GET", "/users/5?x#y").host("www.example.com:80").header("X-Api-Key", "k").str(),
      HttpText("POST", "http://example.com/a/../b").host("h").body("abc").str() + HttpText("GET", "/2").str(),
      HttpText("POST", "/").header("Transfer-Encoding", "chunked").str() +
          "a;x=y\r\n0123456789\r\n0\r\nA: b\r\n\r\nGET /2 HTTP/2.0\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Length: 003, 3\r\n\r\nabcGET /2\r\n\r\n",
      "POST / HTTP/1.1\r\nTransfer-Encoding:\r\nContent-Length: 4\r\n\r\na (bGET /2 HTTP/1.1\r\nX: PLAY "
      "/3\r\nHost:\r\n h\r\n\r\n",
      HttpText("CONNECT", "example.com:443", "HTTP/1.0").str(),
      "GET /\n(\nUNBIND /\nREBIND /\n",
      "\r\nOPTIONS * HTTP/1.1\nHost: h\n folded: x\n\n",
  };
}

std::vector<std::string> frames() {
  std::vector<std::string> all;
  for (const std::string& payload : payloads()) {
    const auto v4 = [&] { return FrameBuilder().payload(payload); };
    const auto v6 = [&] { return FrameBuilder().ip("2001:db8::1", "2001:db8::2").payload(payload); };
    for (const FrameBuilder& builder :
         {v4(), v4().vlan(1, 0x88a8).vlan(2).ipv4_options(8).tcp_options(12), v4().fragment(0, true),
          v4().padding(9), v6().extension(0).extension(43, 24).extension(60).extension(51, 12),
          v6().extension(0).fragment(0, false), v6().fragment(7, true)}) {
      all.push_back(text_of(builder.build()));
    }
  }
  return all;
}

// As FuzzedDataProvider reads them: strings end in a backslash and something else, integers come from the
// end.
std::vector<std::string> classifier_inputs() {
  std::vector<std::string> all;
  for (const std::string_view path_template : {"/users/{id}/**", "/{a}/*/x/", "/login"}) {
    for (const std::string_view target : {"/users/5/a?x", "//a/%2e%2E/login%2f", "http://h/t/y/x/", "*"}) {
      std::string input;
      for (const std::string_view part : {path_template, std::string_view("GET"),
                                          std::string_view("www.example.com"), std::string_view("key")}) {
        input.append(part).append("\\ ");
      }
      all.push_back(input.append(target).append("\x10"));
    }
  }
  return all;
}

std::vector<std::string> keys() {
  weir::KeyBytes key;
  std::vector<std::string> all;
  key.add_text("a|b");
  key.add_absent();
  key.add_prefix(weir::test::address("10.1.2.3"), 24, 64);
  key.add_prefix(weir::test::address("2001:db8::1"), 24, 64);
  key.add_number(443);
  key.add_text(std::string(300, 'x'));
  all.push_back(text_of(key.bytes()));
  return all;
}

std::vector<std::string> redis_inputs() {
  using namespace std::string_literals;
  return {"redis://u:p%40@[::1]:7000/3"s,
          "rediss+sentinel://:p@a,b:1/my-master/2"s,
          "redis+cluster://a:7000,b"s,
          "redis+unix://u:p@/run/r.sock?db=1"s,
          "+OK\r\n:42\r\n$-1\r\n-MOVED 3999 127.0.0.1:6381\r\n-ASK 1 ::1:7\r\n"s,
          ",1.5\r\n"s,
          "*1\r\n#t\r\n"s,
          "%1\r\n~1\r\n_\r\n>1\r\n(12\r\n"s,
          "*1\r\n*3\r\n:0\r\n:5460\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n"s,
          "*2\r\n$10\r\n1763739000\r\n$6\r\n250000\r\n*2\r\n$1\r\nh\r\n$4\r\n6379\r\n"s,
          "*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n*3\r\n:1\r\n$2\r\n17\r\n-WRONGTYPE x\r\n"s,
          "$7\r\n\x93\x01\xcd\x01\x00\xc2\x05\r\n"s,
          "\x93\x01\xd9\x02"
          "17\xd3\xff\xff\xff\xff\xff\xff\xff\x00"s};
}

std::vector<std::string> configs() {
  return {R"([node]
name = "a"
keys = 1024
[store]
url = "redis://h:6379/0"
timeout = "50ms"
prefix = "w"
layout = "plain"
backlog = 1024
[ports]
pairs = [[0, 1]]
queues = 1
[[rule]]
name = "login"
key = ["src_ip/24/56", "header:x-user", "path:id"]
limit = 20
interval = "1s"
spans = 10
cooldown = "10s"
action = "reset"
match = { method = ["GET"], host = "*.example.com", path = "/users/{id}/**", port = [80, 443] }
)",
          R"([[rule]]
name = "all"
limit = 1_000_000
interval = "500ms"
algorithm = "token-bucket"
burst = 10
on_store_failure = "closed"
warmup = "1m"
)",
          R"(a."b\"".c = [{d = '''x''', e = """y\\"""}, [1.5, -0x1f, 1979-05-27T07:32:00Z]] # .
[[rule]]
"name" = 'x'
limit = -1
)"};
}

void write(const std::filesystem::path& folder, const std::vector<std::string>& inputs) {
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    std::ofstream(folder / std::to_string(i), std::ios::binary) << inputs[i];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds DIRECTORY\n");
    return 2;
  }
  const std::filesystem::path root = argv[1];
  write(root / "frame", frames());
  write(root / "http1", payloads());
  write(root / "classifier", classifier_inputs());
  write(root / "key_name", keys());
  write(root / "redis", redis_inputs());
  write(root / "config", configs());
  std::ofstream(root / "done");
  return 0;
}
