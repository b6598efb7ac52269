// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class Access : public ::testing::Test {
 protected:
  Access() : folder_(std::filesystem::temp_directory_path() / ("weir-access-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Access() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& content) {
    const auto path = folder_ / "file";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static RedisAccess read(const char* url, const StoreConfig& config = {}) {
    return read_access(parse_redis_url(url).url, config);
  }

  std::filesystem::path folder_;
};

TEST_F(Access, NeedsNothing) {
  const RedisAccess access = read("redis://h");
  EXPECT_EQ(access.error, "");
  EXPECT_EQ(access.password, "");
  EXPECT_EQ(access.tls, nullptr);
}

TEST_F(Access, TakesThePasswordOfTheUrl) {
  const RedisAccess access = read("redis://weir:hunter2@h");
  EXPECT_EQ(access.user, "weir");
  EXPECT_EQ(access.password, "hunter2");
}

TEST_F(Access, ReadsThePasswordFromAFileAnewEachTime) {
  StoreConfig config;
  config.password_file = file("hunter2\n");
  EXPECT_EQ(read("redis://weir@h", config).password, "hunter2");
  file("next\r\n");
  EXPECT_EQ(read("redis://weir@h", config).password, "next");
  file(" with spaces ");
  EXPECT_EQ(read("redis://h", config).password, " with spaces ");
}

TEST_F(Access, TellsWhatIsWrongWithAPasswordFile) {
  StoreConfig config;
  config.password_file = folder_ / "absent";
  EXPECT_THAT(read("redis://h", config).error, AllOf(HasSubstr("password_file"), HasSubstr("No such file")));
  config.password_file = file("\n");
  EXPECT_THAT(read("redis://h", config).error, HasSubstr("is empty"));
  config.password_file = file(std::string(5000, 'x'));
  EXPECT_THAT(read("redis://h", config).error, HasSubstr("longer than 4096"));
  config.password_file = folder_;
  EXPECT_THAT(read("redis://h", config).error, HasSubstr("password_file"));
}

TEST_F(Access, ReadsThePasswordFromTheEnvironment) {
  StoreConfig config;
  config.password_env = "WEIR_TEST_PASSWORD";
  unsetenv("WEIR_TEST_PASSWORD");
  EXPECT_THAT(read("redis://h", config).error, HasSubstr("no variable WEIR_TEST_PASSWORD"));
  setenv("WEIR_TEST_PASSWORD", "hunter2", 1);
  EXPECT_EQ(read("redis://h", config).password, "hunter2");
  unsetenv("WEIR_TEST_PASSWORD");
}

TEST_F(Access, WantsOnePasswordForAUser) {
  EXPECT_THAT(read("redis://hunter2@h").error, AllOf(HasSubstr("names a user"), Not(HasSubstr("hunter2"))));
  StoreConfig config;
  config.password_file = file("x");
  EXPECT_THAT(read("redis://:hunter2@h", config).error,
              AllOf(HasSubstr("more than once"), Not(HasSubstr("hunter2"))));
}

TEST_F(Access, TlsTermsAreForTls) {
  StoreConfig config;
  config.ca_file = "ca.pem";
  EXPECT_THAT(read("redis://h", config).error, HasSubstr("begin the URL with \"rediss\""));
  config = {};
  config.certificate_file = "c.pem";
  EXPECT_THAT(read("rediss://h", config).error, HasSubstr("belong together"));
}

TEST_F(Access, ReadsTheFilesOfTls) {
  if (!tls_available()) GTEST_SKIP() << "built without OpenSSL";
  StoreConfig config;
  EXPECT_NE(read("rediss://h", config).tls, nullptr);
  config.ca_file = file("no certificate");
  EXPECT_THAT(read("rediss://h", config).error, AllOf(HasSubstr("ca_file"), HasSubstr(config.ca_file)));
  config = {};
  config.certificate_file = config.private_key_file = file("no certificate");
  EXPECT_THAT(read("rediss://h", config).error, HasSubstr("certificate_file: cannot read"));
}

TEST_F(Access, TheLiteralFormIsNotForAcluster) {
  StoreConfig config;
  config.layout = StoreLayout::plain;
  EXPECT_EQ(read("redis+sentinel://h/m", config).error, "");
  EXPECT_THAT(read("redis+cluster://h", config).error, HasSubstr("use layout = \"hash\""));
}

TEST(Presentable, HidesTheSecretAndWhatMovesATerminal) {
  EXPECT_EQ(presentable("no: hunter2, hunter2!\n\x1b[2J", "hunter2"), "no: ***, ***!??[2J");
  EXPECT_EQ(presentable("as it is", ""), "as it is");
  EXPECT_THAT(presentable(std::string(1000, 'x'), "y"), SizeIs(200));
}

}  // namespace
}  // namespace weir
