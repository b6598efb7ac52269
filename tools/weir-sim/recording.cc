// SPDX-License-Identifier: BSD-3-Clause
#include "recording.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <system_error>
#include <unordered_map>

namespace weir::sim {
namespace {

constexpr std::size_t max_file_size = 256 * 1024 * 1024;
/// Three centuries would overflow a nanosecond count; a year is more than any recording lasts.
constexpr double longest_ms = 366.0 * 24 * 3600 * 1000;

struct FileCloser {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

/// A line's fields, and where the last one taken began.
class Fields {
 public:
  explicit Fields(std::string_view line) : line_(line) {}
  bool next(std::string_view& field) {
    if (at_ > line_.size()) return false;
    begin_ = at_;
    const std::size_t end = std::min(line_.find(',', at_), line_.size());
    field = line_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }
  std::size_t column() const { return begin_ + 1; }

 private:
  std::string_view line_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;
};

template <typename Number>
bool parse(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::string parse_recording(std::string_view text, const std::string& file, std::uint32_t nodes,
                            KeySpace& space, std::vector<RecordedRequest>& requests) {
  std::unordered_map<std::string, std::uint32_t> known;
  std::vector<std::string> added = std::move(space.values);
  std::size_t number = 0;
  bool under_header = false;
  Duration before{};
  const auto wrong = [&](std::size_t column, std::string_view what) {
    return file + ':' + std::to_string(number) + ':' + std::to_string(column) + ": " + std::string(what);
  };
  for (std::size_t i = 0; i < added.size(); ++i) known.emplace(added[i], static_cast<std::uint32_t>(i));
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (!under_header) {
      if (line != "time_ms,key" && line != "time_ms,key,weight" && line != "time_ms,key,weight,node")
        return wrong(1,
                     "the first line must read time_ms,key or time_ms,key,weight or time_ms,key,weight,node");
      under_header = true;
      continue;
    }
    Fields fields(line);
    std::string_view field;
    RecordedRequest request;
    double milliseconds = 0;
    fields.next(field);
    if (!parse(field, milliseconds) || !(milliseconds >= 0) || milliseconds > longest_ms)
      return wrong(fields.column(), "time_ms must be a number of milliseconds, 0 or more");
    request.at = Duration(static_cast<std::int64_t>(std::llround(milliseconds * 1e6)));
    if (request.at < before)
      return wrong(fields.column(), "time_ms must not go back: sort the lines by time");
    before = request.at;
    if (!fields.next(field) || field.empty()) return wrong(line.size() + 1, "the key is missing");
    const auto [found, is_new] =
        known.try_emplace(std::string(field), static_cast<std::uint32_t>(added.size()));
    if (is_new) added.emplace_back(field);
    request.key = found->second;
    if (fields.next(field) && (!parse(field, request.weight) || request.weight == 0))
      return wrong(fields.column(), "weight must be a whole number of at least 1");
    if (fields.next(field) && (!parse(field, request.node) || request.node < 0))
      return wrong(fields.column(), "node must be a whole number of at least 0");
    if (request.node >= 0 && static_cast<std::uint32_t>(request.node) >= nodes)
      return wrong(fields.column(), "there is no node " + std::to_string(request.node) + ": of " +
                                        std::to_string(nodes) + " the first one is 0");
    if (fields.next(field))
      return wrong(fields.column(), "there are more fields than time_ms,key,weight,node");
    requests.push_back(request);
  }
  space.values = std::move(added);
  if (requests.empty()) return file + ": the recording has no requests";
  return {};
}

std::string read_whole_file(const std::string& path, std::string& text) {
  const auto reason = [&](const char* what) {
    return path + ": " + what + ": " + std::generic_category().message(errno);
  };
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return reason("cannot open the file");
  std::array<char, 64 * 1024> piece;
  for (;;) {
    const std::size_t size = std::fread(piece.data(), 1, piece.size(), file.get());
    text.append(piece.data(), size);
    if (text.size() > max_file_size) return path + ": the file is larger than 256 MiB";
    if (size < piece.size()) break;
  }
  return std::ferror(file.get()) != 0 ? reason("cannot read the file") : std::string{};
}

}  // namespace weir::sim
