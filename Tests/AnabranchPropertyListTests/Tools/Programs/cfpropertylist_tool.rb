# Converts property lists with CFPropertyList, as Tools.swift asks: see there for the frames.

require "cfpropertylist"

FORMS = { "x" => CFPropertyList::List::FORMAT_XML, "b" => CFPropertyList::List::FORMAT_BINARY }.freeze

def answer(kind, content)
  content = content.b
  $stdout.write(kind, [content.bytesize].pack("N"), content)
  $stdout.flush
end

$stdin.binmode
$stdout.binmode
while (form = $stdin.read(1))
  document = $stdin.read($stdin.read(4).unpack1("N"))
  begin
    list = CFPropertyList::List.new(data: document)
    answer("o", list.to_str(FORMS[form]))
  rescue StandardError => e
    answer("e", e.full_message)
  end
end
