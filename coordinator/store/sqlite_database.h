// The store in an SQLite file: creates, checks and upgrades the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/store/database.h"

struct sqlite3;

namespace hearth::coordinator {

class SqliteDatabase final : public Database {
 public:
  // Errors: see open_store().
  static Result<std::unique_ptr<Database>> open(const std::string& path, Flush flush);
  // A new store that is only in memory.
  static Result<std::unique_ptr<Database>> open_in_memory();
  ~SqliteDatabase() override;

  Result<std::unique_ptr<Rows>> start(const std::string& sql,
                                      const std::vector<SqlValue>& values) override;
  Status execute(const std::string& sql) override;
  Status begin(Access access) override;
  void scrub() override;
  Error damaged(const std::string& what) const override;

 private:
  explicit SqliteDatabase(std::string path) : path_(std::move(path)) {}

  Status connect(int flags);
  Status create_file() const;
  Result<std::int64_t> pragma(const char* sql);
  Status check_whole();
  Status migrate();

  const std::string path_;
  sqlite3* db_ = nullptr;
};

}  // namespace hearth::coordinator
