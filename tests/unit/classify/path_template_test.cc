// SPDX-License-Identifier: BSD-3-Clause
#include "classify/path_template.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir {
namespace {

/// In each of the ways in which a path may be held against a template: all of them agree.
bool matches(std::string_view text, std::string_view path) {
  EXPECT_FALSE(check_path_template(text)) << text;
  const PathTemplate compiled(text);
  std::uint64_t slashes = 0;
  for (std::size_t i = 0; i < path.size(); ++i)
    if (i < 64 && path[i] == '/') slashes |= std::uint64_t{1} << i;
  const bool matched = compiled.matches(PathSegments(path));
  for (const std::uint64_t known : {std::uint64_t{0}, path.size() <= 64 ? slashes : 0}) {
    RequestPath request(path, known);
    EXPECT_EQ(compiled.matches(request), matched) << text << " and " << path << ", slashes " << known;
    const PathSegments segments(path, known);
    EXPECT_EQ(request.first(), segments.count() == 0 ? std::string_view() : segments[0]) << path;
  }
  return matched;
}

TEST(PathTemplate, IsHeldAgainstAPathAsATextAsItIsAgainstItsSegments) {
  std::vector<std::string> beginnings{""};
  for (std::size_t from = 0, depth = 0; depth < 3; ++depth) {
    const std::size_t to = beginnings.size();
    for (; from < to; ++from)
      for (const std::string_view segment : {"a", "b", "ab", "segment-of-20-bytes.."})
        beginnings.push_back(beginnings[from] + "/" + std::string(segment));
  }
  std::size_t matched = 0;
  for (const std::string& beginning : beginnings)
    for (const std::string_view end : {"", "/", "/**", "/*", "/{v}", "/{v}/**"}) {
      const std::string text = beginning + std::string(end);
      if (text.empty()) continue;
      for (const std::string& path : beginnings)
        for (const std::string_view slash : {"", "/"}) matched += matches(text, path + std::string(slash));
    }
  EXPECT_GT(matched, 1000U);
}

TEST(PathTemplate, IsHeldAgainstAPathWhoseLastSlashIsTheLastThatIsKnown) {
  const std::string name(62, 'a');
  EXPECT_TRUE(matches("/" + name, "/" + name + "/"));
  EXPECT_TRUE(matches("/{name}/", "/" + name + "/"));
  EXPECT_FALSE(matches("/" + name.substr(1) + "/**", "/" + name + "/"));
}

TEST(PathTemplate, MatchesLiteralsExactly) {
  EXPECT_TRUE(matches("/login", "/login"));
  EXPECT_TRUE(matches("/api/v1/login", "/api/v1/login"));
  EXPECT_FALSE(matches("/login", "/Login")) << "case-sensitive";
  EXPECT_FALSE(matches("/login", "/logi"));
  EXPECT_FALSE(matches("/login", "/loginx"));
  EXPECT_FALSE(matches("/login", "/login/x"));
  EXPECT_FALSE(matches("/login", "/x/login"));
  EXPECT_FALSE(matches("/login", "/"));
}

TEST(PathTemplate, MatchesTheRootAlone) {
  EXPECT_TRUE(matches("/", "/"));
  EXPECT_FALSE(matches("/", "/x"));
}

TEST(PathTemplate, LetsNoOneSlipPastByASlashAtTheEnd) {
  EXPECT_TRUE(matches("/login", "/login/"));
  EXPECT_TRUE(matches("/users/{id}", "/users/5/"));
}

TEST(PathTemplate, InsistsOnASlashAtTheEndIfItHasOne) {
  EXPECT_TRUE(matches("/login/", "/login/"));
  EXPECT_FALSE(matches("/login/", "/login"));
}

TEST(PathTemplate, MatchesOneSegmentByVariableAndByStar) {
  for (const auto text : {"/users/{id}/cart", "/users/*/cart"}) {
    EXPECT_TRUE(matches(text, "/users/5/cart")) << text;
    EXPECT_TRUE(matches(text, "/users/a b%/cart")) << text;
    EXPECT_FALSE(matches(text, "/users/cart")) << text;
    EXPECT_FALSE(matches(text, "/users/5/6/cart")) << text;
    EXPECT_FALSE(matches(text, "/users/5")) << text;
  }
}

TEST(PathTemplate, MatchesAnyRestByTwoStars) {
  for (const auto path : {"/static", "/static/", "/static/a", "/static/a/b/c/"})
    EXPECT_TRUE(matches("/static/**", path)) << path;
  EXPECT_FALSE(matches("/static/**", "/statics/a"));
  EXPECT_FALSE(matches("/static/**", "/"));
  for (const auto path : {"/", "/a", "/a/b"}) EXPECT_TRUE(matches("/**", path)) << path;
  EXPECT_TRUE(matches("/{tenant}/**", "/t/x/y"));
  EXPECT_FALSE(matches("/{tenant}/**", "/")) << "a variable is not empty";
}

TEST(PathTemplate, MatchesNothingThatIsNoPath) {
  EXPECT_FALSE(matches("/**", ""));
  EXPECT_FALSE(matches("/**", "*"));
}

TEST(PathTemplate, CountsSegmentsBeyondThoseItKeeps) {
  std::string longest;
  for (std::size_t i = 0; i < max_path_template_segments; ++i) longest += "/a";
  EXPECT_TRUE(matches(longest, longest));
  EXPECT_FALSE(matches(longest, longest + "/a"));
  EXPECT_TRUE(matches(longest.substr(2) + "/**", longest + "/a/b/c"));
}

TEST(PathTemplate, KnowsWhichSegmentAVariableIs) {
  const PathTemplate path("/users/{id}/orders/{order}");
  EXPECT_EQ(path.variable("id"), 1u);
  EXPECT_EQ(path.variable("order"), 3u);
  EXPECT_FALSE(path.variable("users"));
  EXPECT_EQ(path.first_literal(), "users");
  EXPECT_EQ(PathTemplate("/{id}/x").first_literal(), "");
  EXPECT_EQ(PathTemplate("/").first_literal(), "");
}

TEST(PathTemplateVariables, AreListedInOrder) {
  EXPECT_EQ(path_template_variables("/users/{id}/orders/{order-2}/**"),
            (std::vector<std::string>{"id", "order-2"}));
  EXPECT_TRUE(path_template_variables("/users/*/**").empty());
  EXPECT_TRUE(path_template_variables("/").empty());
}

TEST(CheckPathTemplate, AcceptsGoodOnes) {
  for (const auto text : {"/", "/a", "/a/", "/a/b", "/{id}", "/{_x-1}/", "/*", "/**", "/a/*/{b}/**",
                          "/a b/caf\xc3\xa9", "/.well-known/x", "/...", "/a;b=c:d@e"}) {
    const auto error = check_path_template(text);
    EXPECT_FALSE(error) << text << ": " << error->message;
  }
}

struct Mistake {
  std::string text;
  std::size_t offset;
  std::string message;
};

TEST(CheckPathTemplate, PointsAtEveryMistake) {
  const Mistake mistakes[] = {
      {"", 0, "begins with '/'"},
      {"login", 0, "begins with '/'"},
      {"*", 0, "begins with '/'"},
      {"/a//b", 3, "slashes are merged"},
      {"//", 1, "slashes are merged"},
      {"/a/{id", 3, "'{' without '}'"},
      {"/a/{}", 3, "needs a name"},
      {"/a/{1d}", 4, "begins with a letter"},
      {"/a/{i d}", 5, "letters, digits"},
      {"/a/{id}x", 7, "whole segment"},
      {"/a/x{id}", 4, "whole segment"},
      {"/a/id}", 5, "whole segment"},
      {"/{a}/{b}/{a}", 9, "{a} occurs twice"},
      {"/**/a", 1, "last segment"},
      {"/**/", 1, "last segment"},
      {"/a*", 2, "stand alone"},
      {"/***", 1, "stand alone"},
      {"/a/../b", 3, "'..' are resolved"},
      {"/.", 1, "'.' and '..'"},
      {"/a?x", 2, "query"},
      {"/a#x", 2, "query and fragment"},
      {"/a%20b", 2, "percent-decoded"},
      {std::string("/a\0b", 4), 2, "control"},
      {"/a\tb", 2, "control"},
      {"/" + std::string(1024, 'a'), 1024, "at most 1024 bytes"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto error = check_path_template(mistake.text);
    ASSERT_TRUE(error) << mistake.text;
    EXPECT_EQ(error->offset, mistake.offset) << mistake.text;
    EXPECT_NE(error->message.find(mistake.message), std::string::npos)
        << mistake.text << ": " << error->message;
  }
}

TEST(CheckPathTemplate, LimitsTheSegments) {
  std::string text;
  for (std::size_t i = 0; i < max_path_template_segments; ++i) text += "/a";
  EXPECT_FALSE(check_path_template(text));
  const auto error = check_path_template(text + "/a");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->offset, text.size() + 1);
}

}  // namespace
}  // namespace weir
