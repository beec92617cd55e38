#include "proto/link/tls.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace hearth {
namespace {

TEST(TlsIdentity, ShowsTheNodesKey) {
  const SecretKey key = SecretKey::generate();
  const auto identity = TlsIdentity::make(key);
  ASSERT_TRUE(identity) << identity.error().message;
  EXPECT_EQ(identity->key, key.public_key());
  const auto shown = certificate_key(identity->certificate);
  ASSERT_TRUE(shown) << shown.error().message;
  EXPECT_EQ(*shown, key.public_key());
  EXPECT_EQ(identity->certificate.find("PRIVATE"), std::string::npos);
}

TEST(CertificateKey, RefusesWhatIsNoCertificateOfOurs) {
  const std::string good = TlsIdentity::make(SecretKey::generate())->certificate;
  EXPECT_FALSE(certificate_key(""));
  EXPECT_FALSE(certificate_key("garbage"));
  EXPECT_FALSE(certificate_key(std::string(limits::kCertificateBytes + 1, 'x')));
  for (std::size_t size = 0; size + 30 < good.size(); size += 13) {
    EXPECT_FALSE(certificate_key(std::string_view(good).substr(0, size))) << size;
  }
  // openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x
  EXPECT_FALSE(
      certificate_key("-----BEGIN CERTIFICATE-----\n"
                      "MIIBcDCCARWgAwIBAgIUAICnaID0baQHhuA/nyA/NboSk5IwCgYIKoZIzj0EAwIw\n"
                      "DDEKMAgGA1UEAwwBeDAgFw0yNjExMjEyMzAyMzlaGA8yMTI2MTAyODIzMDIzOVow\n"
                      "DDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABP7rgTybA9eN\n"
                      "gsxwBYYO6U7USB0S57Ea+WdX31d9mhR/uAI1GSBGhAg4DeE3bAE2n8XejZBMlvBf\n"
                      "aeEHX1FJIAyjUzBRMB0GA1UdDgQWBBSXL19GH33cUjPnl7ARuinbWC5FeDAfBgNV\n"
                      "HSMEGDAWgBSXL19GH33cUjPnl7ARuinbWC5FeDAPBgNVHRMBAf8EBTADAQH/MAoG\n"
                      "CCqGSM49BAMCA0kAMEYCIQD3TD4fLgIIpW6+0k2xA/32+TCGwk9pgSrxTVG3gq+6\n"
                      "tgIhAMhljASsWXZTGH99IkJYUi4lPQ5qXP/n4loirfjgC0zm\n"
                      "-----END CERTIFICATE-----\n"));
}

}  // namespace
}  // namespace hearth
