"""HTML as a tree, for tests of what a page or a table says."""

from html.parser import HTMLParser

VOID = {"meta", "br", "input", "link", "img", "hr"}


class Node:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent, self.children = tag, dict(attributes), parent, []

    def find(self, tag=None, **attributes):
        """All nodes below with this tag and, for each attribute, this word in it."""
        wanted = {name.rstrip("_"): word for name, word in attributes.items()}
        for child in self.children:
            if isinstance(child, Node):
                if (tag is None or child.tag == tag) and all(
                    word in (child.attributes.get(name) or "").split() for name, word in wanted.items()
                ):
                    yield child
                yield from child.find(tag, **attributes)

    def one(self, tag=None, **attributes):
        (found,) = self.find(tag, **attributes)
        return found

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def words(self):
        return " ".join(self.text.split())


class Reader(HTMLParser):
    """A strict reader: every element is closed where it should be."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = self.at = Node("root", {}, None)

    def handle_starttag(self, tag, attributes):
        assert len({name for name, _ in attributes}) == len(attributes), f"an attribute of {tag} stands twice"
        node = Node(tag, attributes, self.at)
        self.at.children.append(node)
        if tag not in VOID:
            self.at = node

    def handle_startendtag(self, tag, attributes):
        self.at.children.append(Node(tag, attributes, self.at))

    def handle_endtag(self, tag):
        assert self.at.tag == tag, f"</{tag}> ends <{self.at.tag}>"
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.children.append(data)


def parse(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.at is reader.root, f"<{reader.at.tag}> is not closed"
    return reader.root
