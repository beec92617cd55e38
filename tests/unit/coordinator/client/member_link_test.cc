#include "coordinator/client/member_link.h"

#include <gtest/gtest.h>

#include "base/hex.h"

namespace hearth::client {
namespace {

TlsIdentity identity() { return *TlsIdentity::make(SecretKey::generate()); }

TEST(MemberLinkTest, ItsBaseLeadsToItAndNoOther) {
  const TlsIdentity own = identity();
  const auto base = open_member_link({"10.1.2.3:11501", own, identity().key});
  ASSERT_TRUE(base.ok()) << base.error().message;
  EXPECT_EQ(*base, "https://10.1.2.3:11501");
  const MemberLink* link = member_link_of(*base + "/v1/models");
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->identity.key, own.key);
  EXPECT_EQ(member_link_of(*base), link);
  EXPECT_EQ(member_link_of("http://10.1.2.3:11501/v1/models"), nullptr);
  EXPECT_EQ(member_link_of("https://10.1.2.3:115011/"), nullptr);
  EXPECT_EQ(member_link_of("https://10.1.2.3/"), nullptr);
  EXPECT_FALSE(open_member_link({"nowhere", own, own.key}).ok());
}

// openssl pkey -pubin -outform DER | sha256sum, of the public key of RFC 8032, 7.1, test 1.
TEST(MemberLinkTest, AKeyIsPinnedByTheHashOfItsSubjectPublicKeyInfo) {
  const auto bytes = from_hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(pinned_key(*PublicKey::parse(*bytes)),
            "sha256//BuP9j9opu2CrWVV95h7bCuzbIxE0vjDnW0Vfjht5L6k=");
}

TEST(MemberLinkTest, NothingListensThere) {
  EXPECT_EQ(dial_member_link({"127.0.0.1:1", identity(), identity().key}), -1);
}

}  // namespace
}  // namespace hearth::client
