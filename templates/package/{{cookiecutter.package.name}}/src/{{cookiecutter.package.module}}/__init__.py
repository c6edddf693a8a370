"""{{ cookiecutter.package.description_doc | join("\n") }}"""

{{ cookiecutter.package.imports | join("\n") }}

{{ cookiecutter.package.exports | join("\n") }}
