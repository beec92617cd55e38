// Any bytes as a release manifest, and as the text of one that the project's key signed: what is
// accepted has one spelling.
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "cli/doctor/release.h"
#include "ledger/note.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  static const SecretKey key =
      *SecretKey::from_seed(std::array<std::byte, SecretKey::kSeedBytes>{std::byte{7}});
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto raw = cli::parse_release(bytes, key.public_key());
  INVARIANT(raw.ok() || !raw.error().message.empty(), "a refusal says why");

  const std::string name = "hearth-release/" + key.public_key().hex();
  ledger::Note note;
  note.text = name + "\n" + std::string(as_text(bytes));
  if (note.text.back() != '\n') note.text += "\n";
  note.signatures.push_back(ledger::sign_note(note.text, name, key));
  const auto release = cli::parse_release(as_bytes(ledger::format_note(note)), key.public_key());
  INVARIANT(release.ok() || !release.error().message.empty(), "a refusal says why");
  if (release.ok()) {
    INVARIANT(cli::release_text(*release, key.public_key()) == note.text,
              "a manifest has one spelling");
    INVARIANT(release->date <= release->until && release->date.ok() && release->until.ok(),
              "its days are days, in order");
  }
  return 0;
}
