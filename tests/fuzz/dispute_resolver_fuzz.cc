// What nodes say to the coordinator's desk of verdicts once one is in dispute: any bytes as
// answers and self-checks, and true ones with any byte changed, from the two sides and from others.
// Whatever they say, the log gets only what its books allow, and one verdict at most; and what is
// asked of nodes is bounded.
//
// A step is one byte, its lower half what happens, its upper half to whom, and what that takes:
//   0, 1     an answer, a self-check: two bytes of length, then a message
//   3, 4     a true answer, a true self-check: where a byte is changed (two), by which bits
//   9        a while passes   10 it is lost   11 it is there again
//   12       the process is another one, and has evidence of a fraud of it: as 3
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/check.h"
#include "base/hex.h"
#include "ledger/dispute/evidence.h"
#include "proto/committed_sampling.h"
#include "tests/unit/coordinator/proof/audit_log.h"

namespace hearth {
namespace {

using coordinator::Auditor;
using testing::ReceiptStage;

constexpr std::size_t kVerdict = 8;
constexpr std::array<const char*, 4> kNodes = {"a", "b", "c", "d"};
const char* const kTruth = "what passed between the stages";

class Play : testing::AuditLog {
 public:
  explicit Play(ByteSpan input) : reader_(input) {
    for (const char* node : kNodes) audits->verdicts().meet(node, stage(node).key());
    for (ReceiptStage& one : stages) one.boundary = "one unit off";
    answer(request(1));
    const coordinator::AuditRun run = runs.back();
    compute(run);
    runs.clear();
    referee();
    again();
    INVARIANT(books.disputes().size() == 1, "there is a dispute");
    entry_ = books.disputes().front();
  }

  void run() {
    while (!reader_.failed() && reader_.remaining() > 0) {
      asked.clear();
      step();
      pump();
      INVARIANT(!::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed(),
                "the log has only what its books allow");
      INVARIANT(asked.size() <= 16, "what is asked is bounded");
      INVARIANT(of_kind(kVerdict) <= 1, "a dispute has one verdict");
    }
  }

 private:
  // Everybody is right who says kTruth.
  void referee() {
    for (coordinator::DisputeResolver::Ask& ask : audits->verdicts().take_asks()) {
      const ledger::RefereeCase& of = ask.request;
      ledger::RefereeFinding found;
      std::vector<std::uint32_t> tokens;
      for (const auto* part : {&of.prompt, &of.answer}) {
        for (const TokenId token : *part) tokens.push_back(static_cast<std::uint32_t>(token));
      }
      tokens.resize(of.positions);
      const Hash256 ends = ledger::commit_tokens(of.salt, 0, tokens, encode_committed(of.sampling));
      const Hash256 between =
          ledger::boundary_root(of.salt, 0, testing::boundary_rows(kTruth, of.positions));
      found.windows[0] = {between, ends};
      found.tokens = found.sampled = {6, 7};
      audits->verdicts().found(ask.entry, found);
    }
    pump();
  }
  // The accused's pipeline computes it once more.
  void again() {
    coordinator::ReceiptRequest once = computed(runs.at(0), {1, 2, 3, 4, 5, 6, 7});
    once.epoch = Epoch(4);
    runs.clear();
    for (ReceiptStage& one : stages) audits->take(one.node, one.claim(once));
    audits->over(once);
    pump();
  }
  std::string bytes() {
    const std::size_t wanted = reader_.read<std::uint16_t>();
    return to_field(reader_.take(std::min(wanted, reader_.remaining())));
  }
  template <typename Message>
  void say(const std::string& node, const std::string& text) {
    Message message;
    if (!message.ParseFromString(text)) return;
    if constexpr (std::is_same_v<Message, control::v1::Answer>) {
      audits->verdicts().on_answer(node, message);
    } else {
      audits->verdicts().keys().on_self_checked(node, message);
    }
  }
  std::string changed(std::string text) {
    const std::size_t at = reader_.read<std::uint16_t>();
    const auto bits = reader_.read<std::uint8_t>();
    if (text.empty()) return text;
    char& byte = text[at % text.size()];
    byte = static_cast<char>(byte ^ bits);
    return text;
  }
  std::string evidence_of_fraud(const PublicKey& guilty) const {
    return std::string(ledger::kVerdictEvidence) + "cluster " + books.cluster().hex() + "\nentry " +
           std::to_string(entry_) + "\nreceipt " + to_hex(ledger::receipt_in(entries.at(entry_))) +
           "\nguilty " + guilty.hex() + "\nverdict fraud\n";
  }
  void start_again(const std::string& kept) {
    open(coordinator::AuditMode::kSpot);
    const ByteSpan bytes = as_bytes(kept);
    audits->verdicts().take_up({Bytes(bytes.begin(), bytes.end())});
    pump();
    INVARIANT(of_kind(kVerdict) == 1 && books.disputes().empty(), "each dispute has an end");
  }

  void step() {
    const unsigned what = reader_.read<std::uint8_t>();
    const std::size_t who = (what >> 4) % kNodes.size();
    const std::string node = kNodes[who];
    switch (what % 16) {
      case 0: return say<control::v1::Answer>(node, bytes());
      case 1: return say<control::v1::SelfChecked>(node, bytes());
      case 3: {
        const auto plea = static_cast<ledger::Plea>(1 + what / 128);
        return say<control::v1::Answer>(
            node, changed(stage(node).plead(entry_, plea, true).SerializeAsString()));
      }
      case 4: {
        control::v1::SelfChecked found;
        found.set_number(1);
        found.set_weights_whole(true);
        found.set_self_test_passed(true);
        return say<control::v1::SelfChecked>(node, changed(found.SerializeAsString()));
      }
      case 9: return later(coordinator::DisputeResolver::kPatience);
      case 10: return audits->verdicts().lose(node);
      case 11: return audits->verdicts().meet(node, stage(node).key());
      case 12: return start_again(changed(evidence_of_fraud(stage(node).key())));
      default: return;
    }
  }

  ByteReader reader_;
  std::uint64_t entry_ = 0;
};

}  // namespace

}  // namespace hearth

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spdlog::set_level(spdlog::level::off);  // a refusal is a line in the log
  constexpr std::size_t kLongest = 512;   // signatures take their time
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  hearth::Play(hearth::ByteSpan(bytes, std::min(size, kLongest))).run();
  return 0;
}
