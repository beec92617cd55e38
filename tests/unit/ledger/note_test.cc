#include "ledger/note.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "tests/unit/ledger/test_keys.h"

namespace hearth::ledger {
namespace {

Hash256 some_root() { return blake2b(as_bytes("root")); }

Checkpoint cosigned() {
  Checkpoint checkpoint = sign_checkpoint(1'234, some_root(), key_of(1));
  EXPECT_TRUE(add_cosignature(checkpoint, cosign(checkpoint, 1'700'000'000, key_of(2))));
  EXPECT_TRUE(add_cosignature(checkpoint, cosign(checkpoint, 1'700'000'001, key_of(3))));
  return checkpoint;
}

// The example of Go's golang.org/x/mod/sumdb/note, whose keys are public.
TEST(Note, KnownAnswers) {
  const std::string text =
      "If you think cryptography is the answer to your problem,\n"
      "then you don't know what your problem is.\n";
  const std::string signed_note =
      text +
      "\n\xE2\x80\x94 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXg"
      "KvqfqdngotpRZb6KE6RyyBwJnAM=\n";
  const Bytes typed = *from_base64("ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW");
  const PublicKey key = *PublicKey::parse(ByteSpan(typed).subspan(1));
  EXPECT_EQ(note_key_id("PeterNeumann", NoteKey::kEd25519, key), 0xc74f20a3u);
  const auto note = parse_note(as_bytes(signed_note));
  ASSERT_TRUE(note) << note.error().message;
  EXPECT_EQ(note->text, text);
  ASSERT_EQ(note->signatures.size(), 1u);
  EXPECT_EQ(check_note(*note, note->signatures[0], "PeterNeumann", key), NoteCheck::kRight);
  EXPECT_EQ(check_note(*note, note->signatures[0], "EnochRoot", key), NoteCheck::kForeign);
  EXPECT_EQ(format_note(*note), signed_note);

  Bytes seed = *from_base64("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz");
  seed.erase(seed.begin());
  const SecretKey secret = *SecretKey::from_seed(seed);
  EXPECT_EQ(format_note({text, {sign_note(text, "PeterNeumann", secret)}}), signed_note);
}

TEST(Note, RefusesWhatIsNoNote) {
  const std::string line = "\xE2\x80\x94 name x08go/ZJkuBS9UG=\n";
  const auto refused = [](const std::string& text) { return !parse_note(as_bytes(text)).ok(); };
  EXPECT_FALSE(refused("text\n\n\xE2\x80\x94 name AAAAAAE=\n"));
  for (const std::string& text : std::vector<std::string>{
           "", "\n", "\n\n", "text\n", "text\n\n", "text\n" + line, "text\n\n- name AAAAAAE=\n",
           "text\n\n\xE2\x80\x94 name AAAAAAE=", "text\n\n\xE2\x80\x94 name AAAAAAE\n",
           "text\n\n\xE2\x80\x94 name AAAAAAF=\n", "text\n\n\xE2\x80\x94 name AAAAAA==\n",
           "text\n\n\xE2\x80\x94 na+me AAAAAAE=\n", "text\n\n\xE2\x80\x94  AAAAAAE=\n",
           "text\n\n\xE2\x80\x94 name  AAAAAAE=\n", "text\n\n\xE2\x80\x94 name AAAAAAE= \n",
           "te\txt\n\n\xE2\x80\x94 name AAAAAAE=\n", "text\n\n\xE2\x80\x94 name AAAAAAE=\r\n",
           "text\n\n\xE2\x80\x94 name AAAAAAE=\n\n"}) {
    EXPECT_TRUE(refused(text)) << text;
  }
  std::string many = "text\n\n";
  for (std::size_t i = 0; i <= limits::kNoteSignatures; ++i) many += "\xE2\x80\x94 name AAAAAAE=\n";
  EXPECT_TRUE(refused(many));
  EXPECT_TRUE(refused(std::string(limits::kNoteBytes, 'x') + "\n\n\xE2\x80\x94 name AAAAAAE=\n"));
}

TEST(Checkpoint, RoundTripsWithItsWitnesses) {
  const Checkpoint checkpoint = cosigned();
  const auto parsed = parse_checkpoint(as_bytes(checkpoint.text()), ForeignLines::kRefuse);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->size, 1'234u);
  EXPECT_EQ(parsed->root, some_root());
  EXPECT_EQ(parsed->log, key_of(1).public_key());
  ASSERT_EQ(parsed->cosignatures.size(), 2u);
  EXPECT_EQ(parsed->cosignatures[1].witness, key_of(3).public_key());
  EXPECT_EQ(parsed->cosignatures[1].time, 1'700'000'001u);
  EXPECT_EQ(parsed->text(), checkpoint.text());
}

TEST(Checkpoint, NoBitOfItMayChange) {
  const std::string text = cosigned().text();
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string wrong = text;
      wrong[at] = static_cast<char>(wrong[at] ^ (1 << bit));
      EXPECT_FALSE(parse_checkpoint(as_bytes(wrong), ForeignLines::kRefuse)) << at << " " << bit;
    }
    EXPECT_FALSE(parse_checkpoint(as_bytes(text.substr(0, at)), ForeignLines::kRefuse) &&
                 text[at - 1] != '\n')
        << at;
  }
}

TEST(Checkpoint, PassesOverSignaturesOfStrangersWhereItIsTold) {
  Checkpoint checkpoint = cosigned();
  checkpoint.note.signatures.push_back({"example.com/other", 7, Bytes(70)});
  const std::string text = checkpoint.text();
  EXPECT_TRUE(parse_checkpoint(as_bytes(text)));
  EXPECT_FALSE(parse_checkpoint(as_bytes(text), ForeignLines::kRefuse));
}

TEST(Checkpoint, RefusesWrongSigners) {
  Checkpoint checkpoint = sign_checkpoint(5, some_root(), key_of(1));
  const NoteSignature own = checkpoint.note.signatures[0];
  checkpoint.note.signatures.clear();
  checkpoint.note.signatures.push_back(
      sign_note(checkpoint.note.text, log_name(key_of(2).public_key()), key_of(2)));
  EXPECT_FALSE(parse_checkpoint(as_bytes(checkpoint.text()))) << "another's key";
  checkpoint.note.signatures = {own, own};
  EXPECT_FALSE(parse_checkpoint(as_bytes(checkpoint.text()))) << "twice";

  checkpoint = sign_checkpoint(5, some_root(), key_of(1));
  const NoteSignature line = cosign(checkpoint, 100, key_of(2));
  ASSERT_TRUE(add_cosignature(checkpoint, line));
  EXPECT_FALSE(add_cosignature(checkpoint, line)) << "twice";
  EXPECT_FALSE(add_cosignature(checkpoint, cosign(checkpoint, 101, key_of(2)))) << "two times";
  const Checkpoint other = sign_checkpoint(6, some_root(), key_of(1));
  EXPECT_FALSE(add_cosignature(checkpoint, cosign(other, 100, key_of(3)))) << "of another";
  EXPECT_FALSE(add_cosignature(checkpoint, own)) << "the log is no witness";
}

TEST(Checkpoint, RefusesTextThatIsNone) {
  const SecretKey key = key_of(1);
  const auto refused = [&](const std::string& text) {
    const Note note{text, {sign_note(text, log_name(key.public_key()), key)}};
    return !parse_checkpoint(as_bytes(format_note(note))).ok();
  };
  const std::string name = log_name(key.public_key());
  const std::string root = base64(some_root().bytes);
  EXPECT_FALSE(refused(name + "\n5\n" + root + "\n"));
  EXPECT_FALSE(refused(name + "\n0\n" + root + "\n"));
  for (const std::string& text : std::vector<std::string>{
           name + "\n05\n" + root + "\n", name + "\n-5\n" + root + "\n",
           name + "\n\n" + root + "\n", name + "\n5\n" + root + "\nmore\n",
           name + "\n5\n" + root.substr(4) + "\n", name + "\n5\n\n",
           name + "\n99999999999999999999\n" + root + "\n",
           name + "\n1099511627777\n" + root + "\n", "example.com/log\n5\n" + root + "\n",
           log_name(key_of(2).public_key()) + "\n5\n" + root + "\n"}) {
    EXPECT_TRUE(refused(text)) << text;
  }
}

}  // namespace
}  // namespace hearth::ledger
