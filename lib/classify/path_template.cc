// SPDX-License-Identifier: BSD-3-Clause
#include "classify/path_template.h"

#include <algorithm>
#include <bit>

namespace weir {
namespace {

bool starts_name(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool continues_name(char c) noexcept { return starts_name(c) || (c >= '0' && c <= '9') || c == '-'; }

bool is_control(char c) noexcept { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool is_variable(std::string_view segment) noexcept { return segment.starts_with('{'); }

// Calls visit(offset, segment) for every segment until it returns false. "/" has none, a trailing slash makes
// none.
template <typename Visit>
void for_each_segment(std::string_view text, Visit visit) {
  std::size_t begin = 1;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    if (!visit(begin, text.substr(begin, end - begin))) return;
    begin = end + 1;
  }
}

std::optional<PathTemplateError> check_variable(std::size_t offset, std::string_view segment) {
  const std::size_t close = segment.find('}');
  if (close == std::string_view::npos) return PathTemplateError{offset, "'{' without '}'"};
  const std::string_view name = segment.substr(1, close - 1);
  if (name.empty()) return PathTemplateError{offset, "a variable needs a name, as in {id}"};
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (i == 0 ? !starts_name(name[i]) : !continues_name(name[i])) {
      return PathTemplateError{
          offset + 1 + i,
          "a variable's name is letters, digits, '_' and '-', and begins with a letter or '_'"};
    }
  }
  if (close + 1 != segment.size())
    return PathTemplateError{offset + close + 1,
                             "a variable is a whole segment: '/' or the end must follow '}'"};
  return std::nullopt;
}

std::optional<PathTemplateError> check_literal(std::size_t offset, std::string_view segment) {
  if (segment == "." || segment == "..")
    return PathTemplateError{offset, "'.' and '..' are resolved before matching, so this never matches"};
  for (std::size_t i = 0; i < segment.size(); ++i) {
    const char c = segment[i];
    if (c == '{' || c == '}')
      return PathTemplateError{offset + i, "a variable is a whole segment, as in /users/{id}"};
    if (c == '*') return PathTemplateError{offset + i, "'*' and '**' stand alone in their segment"};
    if (c == '?' || c == '#')
      return PathTemplateError{offset + i, "query and fragment are cut off before matching; remove them"};
    if (c == '%')
      return PathTemplateError{offset + i,
                               "paths are percent-decoded before matching; write the character itself"};
    if (is_control(c)) return PathTemplateError{offset + i, "control characters are not allowed"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<PathTemplateError> check_path_template(std::string_view text) {
  if (!text.starts_with('/')) return PathTemplateError{0, "a path template begins with '/'"};
  if (text.size() > max_path_template) {
    return PathTemplateError{max_path_template,
                             "a path template has at most " + std::to_string(max_path_template) + " bytes"};
  }
  std::optional<PathTemplateError> error;
  std::vector<std::string_view> names;
  std::size_t count = 0;
  for_each_segment(text, [&](std::size_t offset, std::string_view segment) {
    if (++count > max_path_template_segments) {
      error = PathTemplateError{
          offset, "a path template has at most " + std::to_string(max_path_template_segments) + " segments"};
    } else if (segment.empty()) {
      error = PathTemplateError{offset, "slashes are merged before matching; write one"};
    } else if (segment == "**") {
      if (offset + 2 != text.size()) error = PathTemplateError{offset, "'**' can only be the last segment"};
    } else if (is_variable(segment)) {
      error = check_variable(offset, segment);
      if (!error && std::find(names.begin(), names.end(), segment) != names.end())
        error = PathTemplateError{offset, "the variable " + std::string(segment) + " occurs twice"};
      names.push_back(segment);
    } else if (segment != "*") {
      error = check_literal(offset, segment);
    }
    return !error;
  });
  return error;
}

std::vector<std::string> path_template_variables(std::string_view text) {
  std::vector<std::string> names;
  for_each_segment(text, [&](std::size_t, std::string_view segment) {
    if (is_variable(segment)) names.emplace_back(segment.substr(1, segment.size() - 2));
    return true;
  });
  return names;
}

PathSegments::PathSegments(std::string_view path, std::uint64_t slashes) noexcept {
  if (!path.starts_with('/')) return;
  matchable_ = true;
  trailing_slash_ = path.ends_with('/');
  if (slashes != 0) {
    // At most 64 slashes begin at most 64 segments.
    static_assert(max_path_template_segments >= 64);
    while (slashes != 0) {
      const auto begin = static_cast<std::size_t>(std::countr_zero(slashes)) + 1;
      slashes &= slashes - 1;
      const std::size_t end =
          slashes != 0 ? static_cast<std::size_t>(std::countr_zero(slashes)) : path.size();
      begins_[count_] = path.data() + begin;
      lengths_[count_] = static_cast<std::uint32_t>(end - begin);
      count_ += begin != path.size() ? 1 : 0;  // a slash at the end makes no segment
    }
    return;
  }
  for_each_segment(path, [&](std::size_t, std::string_view segment) {
    if (count_ < max_path_template_segments) {
      begins_[count_] = segment.data();
      lengths_[count_] = static_cast<std::uint32_t>(segment.size());
    }
    ++count_;
    return true;
  });
}

PathTemplate::PathTemplate(std::string_view text) {
  for_each_segment(text, [&](std::size_t, std::string_view segment) {
    if (segment == "**") {
      open_end_ = true;
    } else if (segment == "*") {
      segments_.push_back({Segment::Kind::any, {}});
    } else if (is_variable(segment)) {
      segments_.push_back({Segment::Kind::variable, std::string(segment.substr(1, segment.size() - 2))});
    } else {
      segments_.push_back({Segment::Kind::literal, std::string(segment)});
    }
    return true;
  });
  trailing_slash_ = text.ends_with('/');
  for (const Segment& segment : segments_) {
    literal_ = literal_ && segment.kind == Segment::Kind::literal;
    literals_ += '/' + segment.text;
  }
}

bool PathTemplate::matches(const PathSegments& path, std::size_t known) const noexcept {
  if (!path.matchable()) return false;
  if (open_end_ ? path.count() < segments_.size() : path.count() != segments_.size()) return false;
  if (trailing_slash_ && !path.trailing_slash()) return false;
  for (std::size_t i = known; i < segments_.size(); ++i) {
    if (segments_[i].kind == Segment::Kind::literal && segments_[i].text != path[i]) return false;
  }
  return true;
}

std::optional<std::size_t> PathTemplate::variable(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].kind == Segment::Kind::variable && segments_[i].text == name) return i;
  }
  return std::nullopt;
}

std::string_view PathTemplate::first_literal() const noexcept {
  if (segments_.empty() || segments_.front().kind != Segment::Kind::literal) return {};
  return segments_.front().text;
}

}  // namespace weir
