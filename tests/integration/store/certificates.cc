// SPDX-License-Identifier: BSD-3-Clause
#include "certificates.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <vector>

namespace weir {
namespace {

void openssl(std::vector<std::string> words, const std::filesystem::path& folder) {
  words.insert(words.begin(), "openssl");
  const std::filesystem::path output = folder / "output";
  if (ChildProcess(words, output).wait() == 0) return;
  std::ifstream file(output);
  ADD_FAILURE() << "openssl " << words[1] << " failed (is it installed?)\n"
                << std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

CertificateAuthority::CertificateAuthority(const std::string& name) : folder_("certificates") {
  openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
           "2", "-subj", "/CN=" + name, "-keyout", folder_.path() / "authority.key", "-out", file()},
          folder_.path());
}

CertificateFiles CertificateAuthority::issue(const std::string& file_name, const std::string& names,
                                             int days) {
  const CertificateFiles files{folder_.path() / (file_name + ".pem"), folder_.path() / (file_name + ".key")};
  const std::filesystem::path request = folder_.path() / (file_name + ".csr");
  const std::filesystem::path extensions = folder_.path() / (file_name + ".ext");
  std::ofstream(extensions) << "subjectAltName=" << names << '\n';
  openssl({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
           "/CN=" + file_name, "-keyout", files.key, "-out", request},
          folder_.path());
  openssl(
      {"x509", "-req", "-in", request, "-CA", file(), "-CAkey", folder_.path() / "authority.key",
       "-CAcreateserial", "-days", std::to_string(days), "-extfile", extensions, "-out", files.certificate},
      folder_.path());
  return files;
}

}  // namespace weir
