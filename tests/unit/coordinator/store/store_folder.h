// A store in a folder of its own, gone with the test.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "coordinator/store/store.h"

namespace hearth::coordinator {

class StoreFolder {
 public:
  StoreFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hearth-store-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~StoreFolder() { std::filesystem::remove_all(path_); }
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file() const { return path_ + "/hearth.db"; }
  std::shared_ptr<Store> open() const {
    auto store = open_store(path_);
    EXPECT_TRUE(store.ok()) << (store.ok() ? "" : store.error().message);
    return store.ok() ? *store : nullptr;
  }
  // As another process might, with the file in its hands.
  void execute(const std::string& sql) const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &db), SQLITE_OK);
    char* why = nullptr;
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &why), SQLITE_OK) << why;
    sqlite3_free(why);
    sqlite3_close(db);
  }

 private:
  std::string path_;
};

// A node of its own, admitted with a token.
inline Status admit_somebody(Store& store, const std::string& token, std::int64_t now) {
  const PublicKey key = SecretKey::generate().public_key();
  return store.admit({{key, key.hex(), Role::kWorker, now, false}, token, {}});
}

}  // namespace hearth::coordinator
