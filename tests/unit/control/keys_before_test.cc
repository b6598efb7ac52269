// SPDX-License-Identifier: BSD-3-Clause
// What the publication before says of the keys of the next one, in whatever order these come.
#include "control/keys_before.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace weir {
namespace {

constexpr std::uint64_t named = KeyState::granted;  // with its grants

/// A publication of keys, each with the interval since which it has no grants.
Publication publication_of(const std::vector<KeyState>& keys) {
  Publication publication;
  publication.reset_keys(keys.size());
  std::vector<std::uint64_t> ungranted;
  for (const KeyState& key : keys) {
    publication.append_key(key);
    if (key.ungranted_since != KeyState::granted) ungranted.push_back(key.key);
  }
  publication.index_keys();
  publication.set_ungranted(ungranted);
  return publication;
}
KeyState key_of(std::uint64_t key, std::uint64_t since) {
  return {.key = key * 0x9e3779b97f4a7c15, .ungranted_since = since};
}
std::uint64_t hash_of(std::uint64_t key) { return key_of(key, 0).key; }

std::vector<std::uint64_t> others(const KeysBefore& before) {
  std::vector<std::uint64_t> others;
  before.for_each_other([&](const KeyState& state) { others.push_back(state.key); });
  EXPECT_EQ(others.size(), before.others());
  return others;
}

TEST(KeysBefore, NothingIsKnownBeforeTheFirstPublication) {
  KeysBefore before;
  before.begin(nullptr);
  EXPECT_EQ(before.find(hash_of(1)), nullptr);
  EXPECT_EQ(before.meet(hash_of(1)), nullptr);
  EXPECT_TRUE(others(before).empty());
}

TEST(KeysBefore, TellOfThoseWithoutGrantsAlone) {
  const Publication publication = publication_of({key_of(1, 7), key_of(2, named), key_of(3, 8)});
  KeysBefore before;
  before.begin(&publication);
  ASSERT_NE(before.find(hash_of(3)), nullptr);
  EXPECT_EQ(before.find(hash_of(3))->ungranted_since, 8U);
  EXPECT_EQ(before.find(hash_of(2)), nullptr);
  ASSERT_NE(before.meet(hash_of(1)), nullptr);
  EXPECT_EQ(before.meet(hash_of(2)), nullptr);
  EXPECT_EQ(others(before), std::vector{hash_of(3)});
}

TEST(KeysBefore, AreForgottenWithTheNextPublication) {
  const Publication first = publication_of({key_of(1, 7), key_of(2, 7)});
  const Publication second = publication_of({key_of(2, 7), key_of(3, 7), key_of(4, 7)});
  KeysBefore before;
  before.begin(&first);
  ASSERT_NE(before.meet(hash_of(1)), nullptr);
  before.begin(&second);
  EXPECT_EQ(others(before), (std::vector{hash_of(2), hash_of(3), hash_of(4)}));
  EXPECT_EQ(before.find(hash_of(1)), nullptr);
}

TEST(KeysBefore, AreFoundHoweverTheNextPublicationDiffers) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::uint64_t count = random() % 60;
    std::vector<KeyState> keys;
    for (std::uint64_t key = 0; key < count; ++key)
      keys.push_back(key_of(key, random() % 3 == 0 ? named : random() % 100));
    const Publication publication = publication_of(keys);

    std::vector<std::uint64_t> next;  // most of them, some new ones, a few elsewhere
    for (std::uint64_t key = 0; key < count; ++key) {
      if (random() % 8 != 0) next.push_back(key);
      if (random() % 8 == 0) next.push_back(1000 + key);
    }
    for (std::uint64_t moved = random() % 4; moved > 0 && !next.empty(); --moved)
      std::swap(next[random() % next.size()], next[random() % next.size()]);

    KeysBefore before;
    before.begin(&publication);
    std::set<std::uint64_t> met;
    for (const std::uint64_t key : next) {
      const bool known = key < count && keys[key].ungranted_since != named;
      const KeyState* const found = before.meet(hash_of(key));
      ASSERT_EQ(found != nullptr, known) << "key " << key;
      if (known) {
        EXPECT_EQ(found->key, hash_of(key));
        EXPECT_EQ(found->ungranted_since, keys[key].ungranted_since);
      }
      met.insert(hash_of(key));
    }
    std::vector<std::uint64_t> expected;
    for (const KeyState& key : keys)
      if (key.ungranted_since != named && !met.contains(key.key)) expected.push_back(key.key);
    EXPECT_EQ(others(before), expected);
  }
}

}  // namespace
}  // namespace weir
