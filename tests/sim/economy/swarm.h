// A ledger that is being written: its cluster, a client with credit, and members that serve and
// audit. Everything that happens is an entry, and what follows from an entry is what the product's
// own fold says (ledger/books.h). Signatures are left out: no member here forges any. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ledger/books.h"

namespace hearth::economy {

inline constexpr std::int64_t kDay = 24 * 3'600;

// How much of a window there is. Large: a long answer to a long prompt, of 16 times the usual pay.
// Prompt: nothing was generated, so that to check it pays as much as to serve it.
enum class Size : std::uint8_t { kUsual, kLarge, kPrompt };

struct Window {
  std::uint64_t entry = 0;
  std::size_t worker = 0;
  std::int64_t pay = 0;
  bool wrong = false;  // its root is another one than that of who computes it
  std::uint64_t request = 0;
};

class Swarm {
 public:
  explicit Swarm(std::uint64_t seed);

  const ledger::Policy& policy() const { return books_.policy(); }
  const ledger::Books& books() const { return books_; }
  const ledger::Standing& standing(std::size_t member) const;
  bool is_over(std::size_t member) const { return standing(member).is_tombstoned(); }
  std::int64_t now() const { return now_; }
  std::int64_t price(Size size) const;        // of a window, without the fee
  std::int64_t check_price(Size size) const;  // of checking it

  std::size_t join(bool vouched);  // the member's number; each is its own owner
  void grant(std::size_t member, std::int64_t amount);
  void change(std::size_t member);
  void wait(std::int64_t seconds) { now_ += seconds; }
  // An entry that means nothing to anybody, after which all draws are others.
  void stir(std::uint64_t number);
  // Paid by the client, or by the member that is given.
  Window serve(std::size_t worker, Size size, bool wrong,
               std::optional<std::size_t> payer = std::nullopt);
  // The same window in the stage behind that one.
  Window serve_behind(const Window& upper, std::size_t worker, bool wrong);
  // Of the windows since the draw before, the entries that are audited.
  const std::vector<std::uint64_t>& draw();
  bool referee_draws(std::uint64_t entry) const;
  // Who of these audits it.
  std::optional<std::size_t> auditor(const Window& window, std::span<const std::size_t> of) const;

  // What an auditor says of a window: its true root, the claimed one, or a guess.
  enum class Says : std::uint8_t { kTruth, kClaim, kGuess };
  struct Audit {
    std::size_t auditor = 0;
    Says says = Says::kTruth;
  };
  // All seal, then all open. Whether anybody disagrees.
  bool audit(const Window& window, std::span<const Audit> audits);
  void judge(const Window& window, std::size_t guilty, ledger::Verdict verdict);
  // Two receipts of one slot: both signed, for the books check these.
  void equivocate(std::size_t worker);
  void vest(std::size_t member);
  std::int64_t spendable(std::size_t member) const;
  std::int64_t assets(std::size_t member) const;  // with what is in escrow

 private:
  struct Member {
    PublicKey key;
    Hash256 latest;
  };
  Window serve(std::size_t worker, Size size, bool wrong, std::optional<std::size_t> payer,
               std::uint64_t request, std::uint16_t stage);
  std::uint64_t add(const ledger::EntryBody& body);  // its index; a refusal ends the program

  std::uint64_t seed_ = 0;
  SecretKey cluster_;
  PublicKey client_;
  std::int64_t now_ = 20'000 * kDay;
  ledger::Books books_{ledger::Policy(), ledger::EntrySignatures::kTrusted};
  std::vector<Member> members_;
  std::map<PublicKey, std::size_t> numbers_;
  std::uint64_t requests_ = 0;
};

}  // namespace hearth::economy
