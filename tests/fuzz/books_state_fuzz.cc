// Any bytes as the state of books, and as the file in a log's folder that names its archive: what
// is accepted has one encoding, and a refusal says why.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "ledger/archive.h"
#include "ledger/books_state.h"

namespace {

using namespace hearth;
using namespace hearth::ledger;

// A folder in which every file has these bytes.
class OneFile final : public LogFolder {
 public:
  explicit OneFile(ByteSpan bytes) : bytes_(bytes) {}
  Result<Bytes> read(const std::string& name, std::size_t limit) override {
    REQUIRE(bytes_.size() <= limit, name + " is too long");
    return Bytes(bytes_.begin(), bytes_.end());
  }
  Status write(std::span<const File>) override { return ok_status(); }
  Status sync_names(const std::string&) override { return ok_status(); }
  Status rename(const std::string&, const std::string&) override { return ok_status(); }
  Status remove(const std::string&) override { return ok_status(); }
  Result<std::vector<std::string>> list(const std::string&) override {
    return std::vector<std::string>();
  }

 private:
  ByteSpan bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  auto read = BooksState::read(bytes, {}, EntrySignatures::kTrusted);
  INVARIANT(read.ok() || !read.error().message.empty(), "a refusal says why");
  if (read) {
    (void)read->reread(read->first_window(), bytes);
    const auto books = read->take();
    INVARIANT(!books || std::ranges::equal(BooksState::write(*books), bytes), "one encoding");
  }
  OneFile folder(bytes);
  const auto note = read_archive_note(folder);
  INVARIANT(note.ok() || !note.error().message.empty(), "a refusal says why");
  INVARIANT(!note || (*note && (*note)->folder.starts_with('/')), "an archive has a place");
  return 0;
}
