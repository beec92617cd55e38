#include "coordinator/proof/change_book.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/private_file.h"

namespace hearth::coordinator {
namespace {

namespace fs = std::filesystem;

PublicKey key_of(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value().public_key();
}

struct ChangeBookTest : ::testing::Test {
  ChangeBookTest() {
    char name[] = "/tmp/hearth-changes-XXXXXX";
    folder = ::mkdtemp(name);
    file = (folder / "machines").string();
  }
  ~ChangeBookTest() override { fs::remove_all(folder); }
  fs::path folder;
  std::string file;
};

TEST_F(ChangeBookTest, SeesWhatChangedAlsoWhileNobodyServed) {
  {
    ChangeBook book;
    ASSERT_TRUE(book.open(file));
    EXPECT_FALSE(book.meet(key_of(1), "build 1")) << "it was never met before";
    EXPECT_FALSE(book.meet(key_of(2), "build 1"));
    EXPECT_FALSE(book.meet(key_of(1), "build 1"));
    EXPECT_TRUE(book.meet(key_of(1), "build 2"));
    EXPECT_FALSE(book.meet(key_of(1), "build 2"));
    ASSERT_TRUE(book.store());
    EXPECT_TRUE(book.meet(key_of(2), "build 2")) << "which a crash makes it forget";
  }
  ChangeBook again;
  ASSERT_TRUE(again.open(file));
  EXPECT_FALSE(again.meet(key_of(1), "build 2"));
  EXPECT_TRUE(again.meet(key_of(2), "build 2"));
  EXPECT_TRUE(again.meet(key_of(1), "build 1"));
}

TEST_F(ChangeBookTest, AFileThatItDidNotWriteIsRefused) {
  ChangeBook book;
  ASSERT_TRUE(book.open(file));
  (void)book.meet(key_of(1), "build");
  ASSERT_TRUE(book.store());
  const Bytes whole = *read_private_file(file, 10'000);
  for (const std::size_t size : {whole.size() - 1, std::size_t{5}}) {
    ASSERT_TRUE(write_private_file(file, ByteSpan(whole).first(size)));
    EXPECT_FALSE(ChangeBook().open(file)) << size;
  }
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{64}, std::size_t{70}, whole.size() - 1}) {
    Bytes bent = whole;
    bent[at] = std::byte{'x'};
    ASSERT_TRUE(write_private_file(file, bent));
    EXPECT_FALSE(ChangeBook().open(file)) << at;
  }
}

}  // namespace
}  // namespace hearth::coordinator
