#include "ledger/dispute/evidence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hex.h"
#include "base/limits.h"
#include "base/number.h"
#include "proto/committed_sampling.h"

namespace hearth::ledger {
namespace {

constexpr std::uint32_t kAnyVocabulary = 0x7FFFFFFF;  // the model's own is checked with its file

// Whether the evidence has the very receipt in dispute.
bool is_of(std::string_view hex, const Receipt& disputed) {
  const auto bytes = from_hex(hex);
  if (!bytes) return false;
  const auto receipt = reread_receipt(*bytes);
  return receipt && receipt->slot == disputed.slot && receipt->worker == disputed.worker &&
         receipt->out_root == disputed.out_root;
}

// --- lines ---

class Lines {
 public:
  void add(std::string_view name, const std::string& value) {
    text_ += name;
    text_ += ' ';
    text_ += value;
    text_ += '\n';
  }
  void add_tokens(std::string_view name, const std::vector<TokenId>& tokens) {
    std::string value;
    for (const TokenId token : tokens) {
      if (!value.empty()) value += ' ';
      value += std::to_string(token);
    }
    add(name, value);
  }
  Bytes bytes() const {
    const ByteSpan all = as_bytes(text_);
    return Bytes(all.begin(), all.end());
  }

 private:
  std::string text_ = std::string(kVerdictEvidence);
};

// The values of one file, by name; a name that comes twice is refused but for lists.
class Values {
 public:
  static Result<Values> read(ByteSpan bytes) {
    REQUIRE(bytes.size() <= kEvidenceBytes, "evidence has ", bytes.size(), " bytes; the limit is ",
            kEvidenceBytes);
    std::string_view text = as_text(bytes);
    REQUIRE(text.starts_with(kVerdictEvidence) && text.ends_with('\n'),
            "this is not the evidence of a verdict, or only a part of it");
    text.remove_prefix(kVerdictEvidence.size());
    Values out;
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(line.size() + 1);
      const std::size_t space = line.find(' ');
      REQUIRE(space != std::string_view::npos, "evidence: a line has no value");
      out.values_[std::string(line.substr(0, space))].emplace_back(line.substr(space + 1));
    }
    return out;
  }

  bool has(const std::string& name) const { return values_.contains(name); }
  const std::vector<std::string>& all(const std::string& name) const {
    static const std::vector<std::string> none;
    const auto found = values_.find(name);
    return found == values_.end() ? none : found->second;
  }
  // The value of the first such line; empty: no such line.
  std::string first(const std::string& name) const {
    return has(name) ? all(name).front() : std::string();
  }
  Result<std::string> one(const std::string& name) const {
    const auto& values = all(name);
    REQUIRE(values.size() == 1, "evidence has ", values.size(), " lines \"", name,
            "\", not 1; evidence of an earlier version has no tokens, and "
            "cannot be computed again");
    return values.front();
  }
  Result<std::uint64_t> number(const std::string& name, std::uint64_t most) const {
    TRY(const std::string text, one(name));
    const auto value = parse_number<std::uint64_t>(text);
    REQUIRE(value && *value <= most, "evidence: ", name, " must be a number up to ", most);
    return *value;
  }
  template <std::size_t kSize>
  Status bytes(const std::string& name, std::array<std::byte, kSize>& to) const {
    TRY(const std::string text, one(name));
    return decode(name, text, to);
  }
  Result<PublicKey> key(const std::string& name) const {
    TRY(const std::string text, one(name));
    const auto decoded = from_hex(text);
    REQUIRE(decoded, "evidence: ", name, " must be hex digits");
    auto key = PublicKey::parse(*decoded);
    REQUIRE(key, "evidence: ", name, " is not an Ed25519 public key");
    return *std::move(key);
  }
  Result<std::vector<TokenId>> tokens(const std::string& name) const {
    TRY(const std::string text, one(name));
    std::vector<TokenId> out;
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
      const auto token = parse_number<TokenId>(word);
      REQUIRE(token && *token >= 0 && out.size() < 2 * std::size_t{limits::kModelContext},
              "evidence: ", name, " must be token numbers");
      out.push_back(*token);
    }
    return out;
  }
  template <std::size_t kSize>
  static Status decode(const std::string& name, std::string_view text,
                       std::array<std::byte, kSize>& to) {
    const auto decoded = from_hex(text);
    REQUIRE(decoded && decoded->size() == kSize, "evidence: ", name, " must have ", 2 * kSize,
            " hex digits");
    std::ranges::copy(*decoded, to.begin());
    return ok_status();
  }

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

// "0 HEX HEX ...": a window and its stages' roots.
Status read_window(const std::string& text, WindowRoots& windows) {
  std::string_view rest = text;
  const std::string_view number = rest.substr(0, rest.find(' '));
  const auto window = parse_number<std::uint32_t>(number);
  REQUIRE(window && !windows.contains(*window),
          "evidence: auditor-window must begin with the number of a window");
  rest.remove_prefix(number.size());
  std::vector<Hash256>& roots = windows[*window];
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(word.size());
    TRY_VOID(Values::decode("auditor-window", word, roots.emplace_back().bytes));
  }
  return ok_status();
}

Status read_answer(const Values& values, VerdictEvidence& evidence) {
  if (!values.has("plea")) return ok_status();
  Answer said;
  said.receipt = evidence.entry;
  said.accused = evidence.guilty;
  TRY(const std::uint64_t plea, values.number("plea", 2));
  said.plea = static_cast<Plea>(plea);
  TRY(const std::uint64_t whole, values.number("weights-whole", 1));
  said.weights_whole = whole == 1;
  TRY(const std::uint64_t passed, values.number("self-test-passed", 1));
  said.self_test_passed = passed == 1;
  TRY_VOID(values.bytes("signature", said.signature));
  evidence.answer = said;
  if (values.has("damage")) {
    TRY(evidence.damage, values.one("damage"));
  }
  return ok_status();
}

Status read_request(const Values& values, VerdictEvidence& evidence) {
  RefereeCase& request = evidence.claimed;
  TRY_VOID(values.bytes("salt", request.salt.bytes));
  TRY(request.prompt, values.tokens("prompt"));
  TRY(request.answer, values.tokens("answer"));
  TRY(const std::string sampling, values.one("sampling"));
  const auto decoded = from_hex(sampling);
  REQUIRE(decoded, "evidence: sampling must be hex digits");
  TRY(request.sampling, decode_sampling(*decoded, kAnyVocabulary));
  for (const std::string& text : values.all("request-receipt")) {
    auto bytes = from_hex(text);
    REQUIRE(bytes && bytes->size() == kReceiptBytes, "evidence: request-receipt must have ",
            2 * kReceiptBytes, " hex digits");
    evidence.receipts.push_back(*std::move(bytes));
  }
  REQUIRE(!evidence.receipts.empty(), "evidence has no receipts of the request");
  return ok_status();
}

Status read_auditor(const Values& values, VerdictEvidence& evidence) {
  evidence.seal.receipt = evidence.entry;
  TRY(evidence.seal.auditor, values.key("auditor"));
  TRY_VOID(values.bytes("auditor-seal", evidence.seal.seal.bytes));
  TRY_VOID(values.bytes("auditor-signature", evidence.seal.signature));
  TRY_VOID(values.bytes("auditor-root", evidence.auditor_root.bytes));
  TRY_VOID(values.bytes("auditor-salt", evidence.auditor_salt.bytes));
  if (values.has("auditor-answer")) {
    TRY(evidence.auditor_answer, values.tokens("auditor-answer"));
  }
  for (const std::string& text : values.all("auditor-window")) {
    TRY_VOID(read_window(text, evidence.auditor_windows));
  }
  return ok_status();
}

// --- what is signed ---

// The layers of each stage, from the receipts of the first window.
std::vector<LayerRange> split_of(const std::vector<Receipt>& receipts) {
  std::vector<LayerRange> split;
  for (std::size_t i = 0; i < receipts.front().stages && i < receipts.size(); ++i) {
    split.push_back({receipts[i].layer_begin, receipts[i].layer_end});
  }
  return split;
}

// Checks that a receipt belongs to its place and commits to these tokens.
Status check_receipt(const VerdictEvidence& evidence, const std::vector<Receipt>& receipts,
                     std::size_t index, const std::vector<std::uint32_t>& tokens) {
  const Receipt& first = receipts.front();
  const Receipt& one = receipts[index];
  const std::string what = "evidence: request-receipt " + std::to_string(index) + " ";
  const auto window = static_cast<std::uint32_t>(index / first.stages);
  REQUIRE(one.slot.request == first.slot.request && one.slot.epoch == first.slot.epoch &&
              one.program == first.program && one.stages == first.stages &&
              one.slot.window == window && one.slot.stage == index % first.stages,
          what, "is not that of the next stage of one request");
  const Receipt& above = receipts[index % first.stages];
  REQUIRE(one.layer_begin == above.layer_begin && one.layer_end == above.layer_end, what,
          "has other layers than those of its stage in window 0");
  REQUIRE(one.first_position == window * limits::kWindowPositions &&
              std::size_t{one.first_position} + one.positions <= tokens.size(),
          what, "has positions whose tokens are not in the evidence");
  REQUIRE(commit_tokens(evidence.claimed.salt, one.first_position,
                        std::span(tokens).subspan(one.first_position, one.positions),
                        encode_committed(evidence.claimed.sampling)) == one.tokens,
          what, "commits to other tokens, another salt or other sampling than the evidence has");
  return ok_status();
}

std::vector<std::uint32_t> tokens_of(const RefereeCase& request) {
  std::vector<std::uint32_t> tokens;
  for (const auto* part : {&request.prompt, &request.answer}) {
    for (const TokenId token : *part) tokens.push_back(static_cast<std::uint32_t>(token));
  }
  return tokens;
}

Status check_verdict(const VerdictEvidence& evidence) {
  if (evidence.guilty == evidence.cluster) return ok_status();  // the referee erred, and says so
  Judged judged;
  judged.same_again = evidence.same_again.value_or(false);
  if (evidence.answer) {
    REQUIRE(check_answer(*evidence.answer, evidence.cluster),
            "evidence: the accused has not signed this answer");
    judged.plea = evidence.answer->plea;
    judged.weights_whole = evidence.answer->weights_whole;
    judged.self_test_passed = evidence.answer->self_test_passed;
  }
  REQUIRE(verdict_of(judged) == evidence.verdict,
          "evidence: the answer of the accused does not give the verdict \"",
          verdict_name(evidence.verdict), "\"");
  return ok_status();
}

}  // namespace

Bytes write_evidence(const VerdictEvidence& evidence) {
  INVARIANT(!evidence.receipts.empty(), "a verdict rests on receipts");
  const std::size_t stages = evidence.claimed.split.size();
  const std::size_t disputed = evidence.place.window * stages + evidence.place.stage;
  INVARIANT(disputed < evidence.receipts.size(), "the disputed receipt is among the request's");
  Lines lines;
  lines.add("cluster", evidence.cluster.hex());
  lines.add("entry", std::to_string(evidence.entry));
  lines.add("window", std::to_string(evidence.place.window));
  lines.add("stage", std::to_string(evidence.place.stage));
  lines.add("receipt", to_hex(evidence.receipts[disputed]));
  lines.add("auditor", evidence.seal.auditor.hex());
  lines.add("auditor-root", to_hex(evidence.auditor_root.bytes));
  lines.add("auditor-salt", to_hex(evidence.auditor_salt.bytes));
  lines.add("auditor-seal", to_hex(evidence.seal.seal.bytes));
  lines.add("auditor-signature", to_hex(evidence.seal.signature));
  lines.add("true-root", to_hex(evidence.truth.bytes));
  lines.add("guilty", evidence.guilty.hex());
  lines.add("same-again", !evidence.same_again ? "-" : *evidence.same_again ? "1" : "0");
  if (evidence.answer) {
    lines.add("plea", std::to_string(static_cast<unsigned>(evidence.answer->plea)));
    lines.add("weights-whole", evidence.answer->weights_whole ? "1" : "0");
    lines.add("self-test-passed", evidence.answer->self_test_passed ? "1" : "0");
    lines.add("signature", to_hex(evidence.answer->signature));
    if (!evidence.damage.empty()) lines.add("damage", evidence.damage);
  }
  lines.add("salt", to_hex(evidence.claimed.salt.bytes));
  lines.add("sampling", to_hex(encode(evidence.claimed.sampling)));
  lines.add_tokens("prompt", evidence.claimed.prompt);
  lines.add_tokens("answer", evidence.claimed.answer);
  for (const Bytes& receipt : evidence.receipts) lines.add("request-receipt", to_hex(receipt));
  if (evidence.auditor_answer) lines.add_tokens("auditor-answer", *evidence.auditor_answer);
  for (const auto& [window, roots] : evidence.auditor_windows) {
    std::string text = std::to_string(window);
    for (const Hash256& root : roots) text += " " + root.hex();
    lines.add("auditor-window", text);
  }
  lines.add("verdict", std::string(verdict_name(evidence.verdict)));
  return lines.bytes();
}

Result<VerdictEvidence> parse_evidence(ByteSpan bytes) {
  TRY(const Values values, Values::read(bytes));
  VerdictEvidence out;
  TRY(const std::string verdict, values.one("verdict"));
  for (const Verdict one : {Verdict::kFault, Verdict::kFraud}) {
    if (verdict == verdict_name(one)) out.verdict = one;
  }
  REQUIRE(verdict == verdict_name(out.verdict), "evidence: the verdict \"", verdict,
          "\" finds no node guilty, so there is nothing to compute again");
  TRY(out.cluster, values.key("cluster"));
  TRY(out.entry, values.number("entry", ~std::uint64_t{0}));
  TRY(const std::uint64_t window, values.number("window", limits::kModelContext));
  TRY(const std::uint64_t stage, values.number("stage", 0xFFFF));
  out.place = {static_cast<std::uint32_t>(window), static_cast<std::uint32_t>(stage)};
  TRY_VOID(read_auditor(values, out));
  TRY_VOID(values.bytes("true-root", out.truth.bytes));
  TRY(out.guilty, values.key("guilty"));
  TRY(const std::string again, values.one("same-again"));
  REQUIRE(again == "-" || again == "0" || again == "1", "evidence: same-again must be -, 0 or 1");
  if (again != "-") out.same_again = again == "1";
  TRY_VOID(read_answer(values, out));
  TRY_VOID(read_request(values, out));
  return out;
}

Result<CheckedEvidence> check_evidence(const VerdictEvidence& evidence) {
  CheckedEvidence out;
  for (const Bytes& bytes : evidence.receipts) {
    TRY(out.receipts.emplace_back(), parse_receipt(bytes, evidence.cluster));
  }
  REQUIRE(!out.receipts.empty(), "evidence has no receipts of the request");
  const std::uint32_t stages = out.receipts.front().stages;
  REQUIRE(out.receipts.size() == (std::size_t{evidence.place.window} + 1) * stages &&
              evidence.place.stage < stages,
          "evidence: ", place_name(evidence.place), " is not in the last of ", out.receipts.size(),
          " receipts of ", stages, " stages");
  const std::vector<std::uint32_t> tokens = tokens_of(evidence.claimed);
  for (std::size_t i = 0; i < out.receipts.size(); ++i) {
    TRY_VOID(check_receipt(evidence, out.receipts, i, tokens));
    const Receipt& one = out.receipts[i];
    out.roots.claimed[one.slot.window].push_back(one.out_root);
  }
  REQUIRE(seal_of(evidence.entry, evidence.seal.auditor, evidence.auditor_root,
                  evidence.auditor_salt) == evidence.seal.seal &&
              check_seal(evidence.seal, evidence.cluster),
          "evidence: the auditor has not sealed the root that it is said to have opened");
  const std::size_t disputed = std::size_t{evidence.place.window} * stages + evidence.place.stage;
  REQUIRE(
      evidence.guilty == out.receipts[disputed].worker || evidence.guilty == evidence.seal.auditor,
      "evidence: the guilty key is not a side of the dispute");
  TRY_VOID(check_verdict(evidence));
  out.roots.place = evidence.place;
  out.roots.auditor = evidence.auditor_root;
  out.claimed = evidence.claimed;
  out.claimed.split = split_of(out.receipts);
  out.claimed.positions = out.receipts.back().first_position + out.receipts.back().positions;
  if (evidence.auditor_answer) {
    out.roots.generated = evidence.auditor_windows;
    out.audited = out.claimed;
    out.audited->answer = *evidence.auditor_answer;
    const std::size_t tokens_there = out.claimed.prompt.size() + out.audited->answer.size();
    out.audited->positions =
        static_cast<std::uint32_t>(std::min<std::size_t>(out.claimed.positions, tokens_there));
  }
  return out;
}

Status check_ruling(const VerdictEvidence& evidence, const CheckedEvidence& checked,
                    const RefereeFinding& finding, const RefereeFinding* audited) {
  TRY(const Ruling ruling, rule(checked.roots, checked.claimed, finding, audited));
  REQUIRE(ruling.who != Ruling::False::kNobody,
          "computed again, neither side is found false: ", ruling.why);
  const bool is_worker = ruling.who == Ruling::False::kWorker;
  const std::size_t disputed =
      std::size_t{evidence.place.window} * checked.claimed.split.size() + evidence.place.stage;
  const PublicKey& found = is_worker ? checked.receipts[disputed].worker : evidence.seal.auditor;
  REQUIRE(found == evidence.guilty, "computed again, the ", is_worker ? "worker " : "auditor ",
          found.hex(), " is false, and the verdict names ", evidence.guilty.hex());
  return ok_status();
}

std::optional<VerdictEntry> verdict_in(ByteSpan evidence, const Books& books) {
  const auto values = Values::read(evidence);
  if (!values || values->first("cluster") != books.cluster().hex()) return std::nullopt;
  const auto number = values->number("entry", ~std::uint64_t{0});
  if (!number) return std::nullopt;
  VerdictEntry out;
  out.receipt = *number;
  const std::vector<std::uint64_t> open = books.disputes();
  if (std::ranges::count(open, out.receipt) == 0) return std::nullopt;
  const Receipt& disputed = *books.receipt(out.receipt);
  if (!is_of(values->first("receipt"), disputed)) return std::nullopt;
  std::vector<PublicKey> sides = books.doubters(out.receipt);
  sides.push_back(disputed.worker);
  const auto side = std::ranges::find(sides, values->first("guilty"), &PublicKey::hex);
  if (side == sides.end()) return std::nullopt;
  out.guilty = *side;
  out.evidence = blake2b(evidence);
  for (const Verdict one : {Verdict::kFault, Verdict::kFraud}) {
    out.verdict = one;
    if (values->first("verdict") == verdict_name(one)) return out;
  }
  return std::nullopt;
}

Bytes unjudged_evidence(std::uint64_t entry, const Books& books) {
  Lines lines;
  lines.add("cluster", books.cluster().hex());
  lines.add("entry", std::to_string(entry));
  for (const PublicKey& auditor : books.doubters(entry)) lines.add("auditor", auditor.hex());
  lines.add("why", "the coordinator was started again, and had the request in its memory alone");
  lines.add("verdict", std::string(verdict_name(Verdict::kUnjudged)));
  return lines.bytes();
}

}  // namespace hearth::ledger
