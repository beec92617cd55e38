// What nodes say to the coordinator's desk of verdicts once one is in dispute: any bytes as
// answers, self-checks and moves, and true ones with any byte changed, from the two sides and from
// others. Whatever they say, the log gets only what its books allow, and one verdict at most; and
// what is asked of nodes is bounded.
//
// The first byte: how far the dispute is (0 accused, 1 a game begins, 2 it is played). Then a step
// is one byte, its lower half what happens, its upper half to whom, and what that takes:
//   0, 1, 2  an answer, a self-check, a move: two bytes of length, then a message
//   3, 4     a true answer, a true self-check: where a byte is changed (two), by which bits
//   5        a move that is signed: its round, two bytes of length, then the payload
//   6, 7     it keeps what comes in, it has traced it   8 a part of evidence: as 0
//   9        a while passes   10 it is lost   11 it is there again
//   12       the process is another one, and has evidence of a fraud of it: as 3
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/hex.h"
#include "coordinator/proof/kept_verdict.h"
#include "proto/committed_sampling.h"
#include "tests/unit/coordinator/proof/audit_log.h"
#include "tests/unit/ledger/small_shape.h"

namespace hearth {
namespace {

using coordinator::AuditDesk;
using coordinator::DisputeTools;
using testing::ReceiptStage;

constexpr std::size_t kVerdict = 8;
constexpr std::array<const char*, 4> kNodes = {"a", "b", "c", "d"};
const char* const kTruth = "what passed between the stages";

class Play : testing::AuditLog {
 public:
  explicit Play(ByteSpan input) : reader_(input) {
    for (const char* node : kNodes) audits->verdicts().meet(node, stage(node).key());
    const unsigned far = reader_.read<std::uint8_t>() % 3;
    if (far > 0) {
      audits->verdicts().set_disputes(
          {"build",
           [](LayerRange layers, std::uint32_t prompt) {
             return Result(testing::small_shape(layers, prompt));
           },
           [](const ledger::DisputeFile& file, bool) {
             return Result(DisputeTools::Found{true, {file.moves.size() % 2 == 1, true}, "so"});
           }});
    }
    for (ReceiptStage& one : stages) one.boundary = "one unit off";
    answer(request(1));
    const coordinator::AuditRun run = runs.back();
    compute(run);
    runs.clear();
    referee();
    again();
    INVARIANT(books.disputes().size() == 1, "there is a dispute");
    entry_ = books.disputes().front();
    for (const AuditDesk::Message& one : asked) {
      if (one.body.has_dispute()) read_id(one.body.dispute());
    }
    if (far < 2) return;
    for (const char* node : {"a", "c"}) keeps(node, false);
    for (const char* node : {"a", "c"}) keeps(node, true);
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
  void read_id(const control::v1::DisputeOrder& order) {
    if (!order.has_begin()) return;
    const auto file = ledger::parse_dispute(as_bytes(order.begin().said()));
    INVARIANT(file.ok(), "a game begins with a file");
    id_ = ledger::check_case(file->said).value().id;
  }
  // Everybody is right who says kTruth.
  void referee() {
    for (coordinator::VerdictDesk::Ask& ask : audits->verdicts().take_asks()) {
      const coordinator::RefereeCase& of = ask.request;
      coordinator::RefereeFinding found;
      std::vector<std::uint32_t> tokens;
      for (const auto* part : {&of.prompt, &of.answer}) {
        for (const TokenId token : *part) tokens.push_back(static_cast<std::uint32_t>(token));
      }
      tokens.resize(of.positions);
      const Hash256 ends = ledger::commit_tokens(of.salt, 0, tokens, encode_committed(of.sampling));
      const Hash256 between =
          ledger::boundary_root(of.salt, 0, testing::boundary_rows(kTruth, of.positions));
      found.windows[0] = {{ends, between}, {between, ends}};
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
  void keeps(const std::string& node, bool traced) {
    control::v1::DisputeMove move;
    move.set_entry(entry_);
    traced ? move.set_traced(true) : move.set_keeps(true);
    audits->verdicts().take(node, move);
    pump();
  }
  std::string bytes() {
    const std::size_t wanted = reader_.read<std::uint16_t>();
    return to_field(reader_.take(std::min(wanted, reader_.remaining())));
  }
  template <typename Message>
  void say(const std::string& node, const std::string& text) {
    Message message;
    if (message.ParseFromString(text)) audits->verdicts().take(node, message);
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
    return std::string(coordinator::kVerdictEvidence) + "cluster " + books.cluster().hex() +
           "\nentry " + std::to_string(entry_) + "\nreceipt " +
           to_hex(ledger::receipt_in(entries.at(entry_))) + "\nguilty " + guilty.hex() +
           "\nverdict fraud\n";
  }
  void start_again(const std::string& kept) {
    open(coordinator::AuditMode::kSpot);
    const ByteSpan bytes = as_bytes(kept);
    audits->verdicts().take_up({Bytes(bytes.begin(), bytes.end())});
    pump();
    INVARIANT(of_kind(kVerdict) == 1 && books.disputes().empty(), "each dispute has an end");
  }
  void sign(std::size_t who) {
    const std::uint32_t round = reader_.read<std::uint8_t>();
    const std::string payload = bytes();
    if (!id_) return;
    control::v1::DisputeMove move;
    move.set_entry(entry_);
    move.mutable_moved()->set_round(round);
    move.mutable_moved()->set_payload(payload);
    const auto key = testing::receipt_key(static_cast<unsigned char>(10 + who));
    const ByteSpan span = as_bytes(payload);
    const auto signed_move = ledger::sign_move(
        *id_, round, who < 2 ? ledger::DisputeSide::kWorker : ledger::DisputeSide::kAuditor,
        {span.begin(), span.end()}, key);
    if (!signed_move) return;
    move.mutable_moved()->set_signature(to_field(signed_move->signature));
    audits->verdicts().take(kNodes[who], move);
  }

  void step() {
    const unsigned what = reader_.read<std::uint8_t>();
    const std::size_t who = (what >> 4) % kNodes.size();
    const std::string node = kNodes[who];
    switch (what % 16) {
      case 0: return say<control::v1::Answer>(node, bytes());
      case 1: return say<control::v1::SelfChecked>(node, bytes());
      case 2: return say<control::v1::DisputeMove>(node, bytes());
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
      case 5: return sign(who);
      case 6: return keeps(node, false);
      case 7: return keeps(node, true);
      case 8: {
        control::v1::DisputeMove move;
        move.set_entry(entry_);
        const std::string part = bytes();
        move.mutable_shown()->set_part(part);
        move.mutable_shown()->set_total(part.size());
        return audits->verdicts().take(node, move);
      }
      case 9: return later(coordinator::VerdictDesk::kPatience);
      case 10: return audits->verdicts().lose(node);
      case 11: return audits->verdicts().meet(node, stage(node).key());
      case 12: return start_again(changed(evidence_of_fraud(stage(node).key())));
      default: return;
    }
  }

  ByteReader reader_;
  std::uint64_t entry_ = 0;
  std::optional<Hash256> id_;
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
